// Every chart as a picture and as a table for programs.
import { el } from "./dom.js";
import { t } from "./i18n.js";

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const made = el("a", { href: address, download: name });
  document.body.append(made);
  made.click();
  made.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// A cell that a spreadsheet would take for a formula is text.
export function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csvOf = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "visibility", "display", "text-anchor"];

async function drawingOf(drawn) {
  const copy = drawn.cloneNode(true), box = drawn.getBoundingClientRect(), view = drawn.viewBox.baseVal;
  const originals = [drawn, ...drawn.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, place) => {
    const style = getComputedStyle(original);
    for (const name of STYLED) copies[place].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.width * (view?.height || box.height) / (view?.width || box.width));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = el("canvas", { width: Math.round(box.width * 2), height: Math.round(copy.getAttribute("height") * 2) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// On the page's own ground: a picture without one cannot be read on another.
async function pictureOf(drawn) {
  const source = drawn instanceof HTMLCanvasElement ? drawn : await drawingOf(drawn);
  const canvas = el("canvas", { width: source.width, height: source.height });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--card").trim() || "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

// what: {picture: () => canvas or svg, rows: () => rows of cells, name}
export function saveButtons(what) {
  const name = () => (what.name || "chart").replace(/[^\w.-]+/g, "-").slice(0, 60);
  return el("span", { class: "save" },
    what.picture && el("button", { type: "button", title: t("save.png"), "aria-label": `${t("save.png")}: ${what.name}`, on: { click: async () => save(await pictureOf(what.picture()), `${name()}.png`) } }, "PNG"),
    el("button", { type: "button", title: t("save.csv"), "aria-label": `${t("save.csv")}: ${what.name}`, on: { click: () => save(new Blob([csvOf(what.rows())], { type: "text/csv" }), `${name()}.csv`) } }, "CSV"));
}
