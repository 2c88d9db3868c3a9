// Lines over time or steps on a canvas, with a band where there is one; a legend that hides, values under the pointer or the arrow keys.
import { cssVar, el } from "./dom.js";
import { figure, t } from "./i18n.js";
import { saveButtons } from "./saving.js";
import { hideTip, showTip } from "./tip.js";

const COLOURS = 7, LEFT = 56, RIGHT = 14, TOP = 10, BOTTOM = 34, TALL = 220;

export const colourOf = (place) => cssVar(`--c${place % COLOURS}`);

export function ticks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((times) => times * size >= rough) * size;
  const made = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) made.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return made;
}

// chart: {title, x, xTitle, unit, series: [{name, values, low?, high?, dash?}], zero?}
export function lineChart(chart) {
  const canvas = el("canvas", { class: "chart", tabindex: "0", role: "img", css: { height: `${TALL}px` } });
  const told = el("p", { class: "soft small told", "aria-live": "polite" });
  const off = new Set();
  let scale, at = -1;

  const shown = () => chart.series.map((series, place) => ({ ...series, place })).filter((series) => !off.has(series.place));
  const finite = (value) => value !== null && value !== undefined && Number.isFinite(value);

  function draw() {
    const wide = canvas.clientWidth || 480, ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(TALL * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const all = shown().flatMap((series) => [...series.values, ...(series.low ?? []), ...(series.high ?? [])]).filter(finite);
    const xs = chart.x.filter(finite);
    let low = Math.min(...all, chart.zero ? 0 : Infinity), high = Math.max(...all, chart.zero ? 0 : -Infinity);
    if (!all.length) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
    const from = xs.length ? xs[0] : 0, to = xs.length ? Math.max(xs[xs.length - 1], from + 1e-9) : 1;
    const right = wide - RIGHT, bottom = TALL - BOTTOM;
    const px = (x) => LEFT + (x - from) / (to - from) * (right - LEFT), py = (y) => bottom - (y - low) / (high - low) * (bottom - TOP);
    scale = { from, to, px, right };
    const [ink, soft, grid] = [cssVar("--ink"), cssVar("--soft"), cssVar("--grid")];
    pen.font = "11.5px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const value of ticks(low, high)) {
      pen.strokeStyle = grid;
      pen.beginPath();
      pen.moveTo(LEFT, Math.round(py(value)) + 0.5);
      pen.lineTo(right, Math.round(py(value)) + 0.5);
      pen.stroke();
      pen.fillStyle = soft;
      pen.textAlign = "right";
      pen.fillText(figure(value, 4), LEFT - 7, py(value));
    }
    pen.textAlign = "center";
    for (const value of ticks(from, to, Math.max(2, Math.floor(wide / 110)))) pen.fillText(chart.xText ? chart.xText(value) : figure(value, 2), px(value), bottom + 14);
    pen.fillText(chart.xTitle ?? "", (LEFT + right) / 2, TALL - 7);
    if (low < 0 && high > 0) {
      pen.strokeStyle = soft;
      pen.beginPath();
      pen.moveTo(LEFT, py(0));
      pen.lineTo(right, py(0));
      pen.stroke();
    }
    for (const series of shown()) {
      const colour = colourOf(series.place);
      if (series.low && series.high) {
        const inside = chart.x.map((x, place) => [x, series.low[place], series.high[place]]).filter(([, one, other]) => finite(one) && finite(other));
        pen.fillStyle = colour;
        pen.globalAlpha = 0.16;
        pen.beginPath();
        inside.forEach(([x, , up], place) => (place ? pen.lineTo(px(x), py(up)) : pen.moveTo(px(x), py(up))));
        inside.reverse().forEach(([x, down]) => pen.lineTo(px(x), py(down)));
        pen.fill();
        pen.globalAlpha = 1;
      }
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 1.8;
      pen.lineJoin = "round";
      pen.setLineDash(series.dash ? [5, 4] : []);
      pen.beginPath();
      let down = false, points = 0;
      series.values.forEach((value, place) => {
        if (!finite(value) || !finite(chart.x[place])) return;
        points++;
        if (down) pen.lineTo(px(chart.x[place]), py(value)); else pen.moveTo(px(chart.x[place]), py(value));
        down = true;
      });
      pen.stroke();
      pen.setLineDash([]);
      if (points <= 40) {
        series.values.forEach((value, place) => {
          if (!finite(value)) return;
          pen.beginPath();
          pen.arc(px(chart.x[place]), py(value), 2.5, 0, 7);
          pen.fill();
        });
      }
    }
    if (at >= 0) {
      pen.strokeStyle = ink;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(px(chart.x[at]), TOP);
      pen.lineTo(px(chart.x[at]), bottom);
      pen.stroke();
    }
  }

  function linesAt(place) {
    return shown().filter((series) => finite(series.values[place]))
      .map((series) => [series.name, `${figure(series.values[place], 4)} ${chart.unit ?? ""}`.trim(), colourOf(series.place)]);
  }

  const titleAt = (place) => `${chart.xTitle ?? ""} ${chart.xText ? chart.xText(chart.x[place]) : figure(chart.x[place], 2)}`.trim();
  const nearest = (wanted) => chart.x.reduce((best, x, place) => (Math.abs(x - wanted) < Math.abs(chart.x[best] - wanted) ? place : best), 0);

  canvas.addEventListener("pointermove", (event) => {
    if (!chart.x.length || !scale) return;
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (scale.right - LEFT);
    at = nearest(scale.from + Math.max(0, Math.min(1, share)) * (scale.to - scale.from));
    draw();
    showTip(event, titleAt(at), linesAt(at));
  });
  const leave = () => { at = -1; hideTip(); draw(); };
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !chart.x.length) return;
    event.preventDefault();
    at = Math.max(0, Math.min(chart.x.length - 1, (at < 0 ? 0 : at) + step));
    draw();
    told.textContent = `${titleAt(at)}: ${linesAt(at).map(([name, value]) => `${name} ${value}`).join(", ")}`;
  });

  const legend = el("div", { class: "legend", role: "group", "aria-label": t("chart.series") });
  function drawLegend() {
    legend.replaceChildren(...(chart.series.length < 2 ? [] : chart.series.map((series, place) => el("button", {
      type: "button", "aria-pressed": String(!off.has(place)),
      on: { click: () => { if (off.has(place)) off.delete(place); else off.add(place); drawLegend(); draw(); } },
    }, el("i", { css: { background: colourOf(place) } }), series.name))));
  }
  drawLegend();
  const caption = el("figcaption", null, el("span", null, chart.title, chart.unit ? ` (${chart.unit})` : ""), saveButtons({
    name: chart.title, picture: () => canvas,
    rows: () => [[chart.xTitle || "x", ...chart.series.map((series) => series.name)], ...chart.x.map((x, place) => [x, ...chart.series.map((series) => series.values[place] ?? "")])],
  }));
  const label = () => canvas.setAttribute("aria-label", `${chart.title}: ${chart.series.map((series) => series.name).join(", ")}`);
  label();
  new ResizeObserver(draw).observe(canvas);
  const root = el("figure", { class: "line-chart" }, caption, legend, canvas, told);
  requestAnimationFrame(draw);
  return { root, canvas, update(next) { Object.assign(chart, next); label(); drawLegend(); draw(); } };
}
