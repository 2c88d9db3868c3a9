// Elements from plain values. Text is text: nothing here, and nothing that uses it, ever reads markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.setAttribute("class", value);
    else if (name === "on") for (const [event, hear] of Object.entries(value)) made.addEventListener(event, hear);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "css") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (name === "value" && "value" in made) made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return made;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A card with a head.
export function card(title, attributes, ...children) {
  const head = title instanceof Node ? title : el("h2", null, title);
  return el("section", { ...attributes, class: `card ${attributes?.class ?? ""}` }, head, ...children);
}

export function table(heads, rows, attributes) {
  const cells = (row) => row.map((cell, place) => {
    const made = cell instanceof HTMLTableCellElement ? cell : el("td", null, cell);
    made.dataset.of = heads[place] ?? "";
    return made;
  });
  return el("table", attributes, el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", null, rows.map((row) => el("tr", null, cells(row)))));
}

// A link into the dashboard: every part is encoded, whatever a name holds.
export const way = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
export const link = (text, ...parts) => el("a", { href: way(...parts) }, text);

export function cssVar(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
