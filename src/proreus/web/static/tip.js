// One tooltip for all charts.
import { el } from "./dom.js";

const tip = document.getElementById("tip");

export function hideTip() { tip.hidden = true; }

// lines: [[name, value, colour?]]
export function showTip(event, title, lines) {
  tip.replaceChildren(el("b", null, title), ...lines.map(([name, value, colour]) =>
    el("span", null, el("span", null, colour && el("i", { css: { background: colour } }), name), el("span", null, value))));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 16 + box.width > innerWidth;
  tip.style.left = `${Math.max(4, right ? event.clientX - 16 - box.width : event.clientX + 16)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 4))}px`;
}
