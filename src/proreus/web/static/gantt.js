// What ran where, from when to when: a row a machine, a bar a task, a colour a workflow.
import { cssVar, el } from "./dom.js";
import { figure, t } from "./i18n.js";
import { ticks } from "./line_chart.js";
import { saveButtons } from "./saving.js";
import { hideTip, showTip } from "./tip.js";

const LEFT = 150, RIGHT = 12, ROW = 15, GOLDEN = 137.508;

// One axis for several runs, in seconds: where it begins and ends, and where their clocks began, which is its 0.
export function sharedAxis(results) {
  const zero = Math.min(...results.map((result) => result.time[0]));
  let low = zero, high = zero + 1e-9;
  for (const { gantt } of results) {
    for (const begin of gantt.begin) low = Math.min(low, begin);
    for (const end of gantt.end) high = Math.max(high, end);
  }
  return { zero, low, high };
}

export function ganttChart(gantt, title, { zero, low, high }) {
  const tall = ROW * gantt.rows.length + 40;
  const canvas = el("canvas", { class: "chart", role: "img", "aria-label": t("gantt.label", { bars: figure(gantt.row.length, 0), rows: gantt.rows.length, title }), css: { height: `${tall}px` }, data: { axis: `${low - zero} ${high - zero}` } });
  let until = Infinity, px;

  function draw() {
    const wide = canvas.clientWidth || 640, ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    px = (time) => LEFT + (time - low) / (high - low) * (wide - LEFT - RIGHT);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillStyle = cssVar("--soft");
    gantt.rows.forEach((name, row) => pen.fillText(name.length > 22 ? `${name.slice(0, 21)}…` : name, LEFT - 8, ROW * row + ROW / 2));
    for (let bar = 0; bar < gantt.row.length; bar++) {
      if (gantt.begin[bar] > until) continue;
      pen.fillStyle = `hsl(${gantt.group[bar] * GOLDEN % 360} 55% 52%)`;
      const end = Math.min(gantt.end[bar], until);
      pen.fillRect(px(gantt.begin[bar]), ROW * gantt.row[bar] + 1.5, Math.max(0.5, px(end) - px(gantt.begin[bar])), ROW - 3);
    }
    pen.fillStyle = cssVar("--soft");
    pen.textAlign = "center";
    for (const tick of ticks(low - zero, high - zero)) pen.fillText(figure(tick, 0), px(zero + tick), ROW * gantt.rows.length + 12);
    pen.fillText(t("gantt.seconds"), (LEFT + wide) / 2, tall - 8);
    if (until < high) {
      pen.strokeStyle = cssVar("--ink");
      pen.beginPath();
      pen.moveTo(px(until), 0);
      pen.lineTo(px(until), ROW * gantt.rows.length);
      pen.stroke();
    }
  }

  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), row = Math.floor((event.clientY - box.top) / ROW), x = event.clientX - box.left;
    const bar = gantt.row.findIndex((one, place) => one === row && px(gantt.begin[place]) <= x && x <= px(gantt.end[place]) + 1);
    if (bar < 0) { hideTip(); return; }
    showTip(event, gantt.groups[gantt.group[bar]], [[gantt.rows[row], `${figure(gantt.begin[bar] - zero)} – ${figure(gantt.end[bar] - zero)} s`]]);
  });
  new ResizeObserver(draw).observe(canvas);
  requestAnimationFrame(draw);
  const caption = el("figcaption", null, el("span", null, title), saveButtons({ name: `gantt-${title}`, picture: () => canvas,
    rows: () => [["row", "group", "begin", "end"], ...gantt.row.map((row, bar) => [gantt.rows[row], gantt.groups[gantt.group[bar]], gantt.begin[bar], gantt.end[bar]])] }));
  const root = el("figure", { class: "gantt" }, caption, canvas, gantt.note && el("p", { class: "soft small" }, gantt.note), gantt.leftOut > 0 && el("p", { class: "soft small" }, t("gantt.leftOut", { count: figure(gantt.leftOut, 0) })));
  return { root, showUntil(time) {
    until = time;
    if (time === Infinity) delete canvas.dataset.until; else canvas.dataset.until = String(time - zero);
    draw();
  } };
}
