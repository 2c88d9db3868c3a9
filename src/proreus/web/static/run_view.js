// What came of one or two runs of the same work: measures beside each other, replays that go together, curves, Gantt charts.
import { card, el, table } from "./dom.js";
import { figure, t } from "./i18n.js";
import { ganttChart, sharedAxis } from "./gantt.js";
import { lineChart } from "./line_chart.js";
import { replayView, together } from "./replay_view.js";
import { saveButtons } from "./saving.js";

const TICK_MS = 100;

// A time in which the curve of one run has its points, for a chart of several.
function merged(results, key) {
  const x = [...new Set(results.flatMap((result) => result.time))].filter((one) => one !== null).sort((a, b) => a - b);
  const series = results.map((result) => {
    const values = result.curves.find((curve) => curve.key === key)?.values ?? [], at = new Map(result.time.map((time, place) => [time, values[place]]));
    return { name: result.policy, values: x.map((time) => at.get(time) ?? null) };
  });
  return { x, series };
}

function measuresTable(results) {
  const names = [...new Map(results.flatMap((result) => result.measures.map((measure) => [measure.name, measure]))).values()];
  const deciding = results[0].deciding.find((name) => names.some((measure) => measure.name === name));
  names.sort((a, b) => (b.name === deciding) - (a.name === deciding));
  const value = (result, name) => result.measures.find((measure) => measure.name === name)?.value;
  const rows = names.map((measure) => {
    const values = results.map((result) => value(result, measure.name)).filter((one) => one !== undefined);
    const best = measure.better === "higher" ? Math.max(...values) : Math.min(...values);
    const cells = results.map((result) => {
      const mine = value(result, measure.name);
      return el("td", { class: `number ${results.length > 1 && mine === best && values.some((one) => one !== best) ? "best" : ""}` }, mine === undefined ? "–" : `${figure(mine, 3)}`);
    });
    return [el("td", null, measure.name === deciding ? el("b", null, measure.title) : measure.title, measure.unit ? el("small", { class: "soft" }, ` ${measure.unit}`) : "", el("span", { class: "soft", title: t(`better.${measure.better}`) }, measure.better === "higher" ? " ↑" : " ↓")), ...cells];
  });
  const csv = saveButtons({ name: "measures", rows: () => [["measure", "unit", ...results.map((result) => result.policy)], ...names.map((measure) => [measure.name, measure.unit, ...results.map((result) => value(result, measure.name) ?? "")])] });
  return [csv, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("run.measures") }, table([t("run.measure"), ...results.map((result) => result.policy)], rows))];
}

// Shows the results in root; returns {stop, position}.
export function runView(root, results, { speed = () => 1, from = 0, boxes } = {}) {
  const drawn = results.filter((result) => result.replay), timed = results.filter((result) => result.gantt);
  const axis = timed.length ? sharedAxis(timed) : null, gantts = new Map(timed.map((result) => [result, ganttChart(result.gantt, result.policy, axis)]));
  // A run's bars go as far as the frame of it that is shown; its last frame is the whole run.
  const reach = (result, frame, length) => {
    const { seconds } = result.replay, since = seconds ? seconds[frame] : frame / Math.max(1, length - 1) * (axis.high - axis.zero);
    gantts.get(result).showUntil(frame >= length - 1 ? Infinity : (seconds ? result.time[0] : axis.zero) + since);
  };
  let share = from, timer = 0, go = () => {};
  const slider = el("input", { type: "range", min: "0", max: "1000", value: String(from * 1000), "aria-label": t("player.frame"), class: "whole" });
  const play = el("button", { type: "button", class: "main all-play" }, t("player.play"));
  const show = (wanted) => {
    share = Math.max(0, Math.min(1, wanted));
    slider.value = String(Math.round(share * 1000));
    go(share);
  };
  const steps = () => Math.max(2, ...drawn.map((result) => result.replay.moments.length)) - 1;
  const pause = () => { clearInterval(timer); timer = 0; play.textContent = t("player.play"); };
  const start = () => {
    if (share >= 1) show(0);
    play.textContent = t("player.pause");
    timer = setInterval(() => { if (share >= 1) pause(); else show(share + speed() / steps() * TICK_MS / 200); }, TICK_MS);
  };
  play.addEventListener("click", () => (timer ? pause() : start()));
  slider.addEventListener("input", () => { pause(); show(Number(slider.value) / 1000); });
  const step = (by) => { pause(); show(Math.round(share * steps() + by) / steps()); };
  const controls = el("div", { class: "buttons" }, el("button", { type: "button", on: { click: () => step(-1) } }, t("player.back")), play, el("button", { type: "button", class: "step-on", on: { click: () => step(1) } }, t("player.on")), slider);
  const views = drawn.map((result) => replayView({ [result.policy]: result.replay }, { title: result.policy, told: gantts.has(result) ? (frame, length) => reach(result, frame, length) : undefined }));
  const keys = [...new Map(results.flatMap((result) => result.curves.map((curve) => [curve.key, curve]))).values()];
  const facts = el("ul", { class: "chips" }, (results[0].facts ?? []).map((fact) => el("li", null, fact)));
  root.replaceChildren(...[
    card(t("run.side"), { class: "full" }, facts, results.map((result) => result.remark && el("p", { class: "soft small" }, `${result.policy}: ${result.remark}`)), controls, boxes?.(), el("div", { class: "side" }, views.map((view) => view.root))),
    gantts.size ? card(t("gantt.title"), { class: "full" }, el("div", { class: "side" }, [...gantts.values()].map((chart) => chart.root))) : null,
    card(t("run.measures"), { class: "half" }, ...measuresTable(results)),
    card(t("run.curves"), { class: "half" }, el("div", { class: "tall-box", tabindex: "0", role: "region", "aria-label": t("run.curves") }, keys.map((curve) => {
      const { x, series } = merged(results, curve.key);
      return lineChart({ title: curve.title, unit: curve.unit, xTitle: t("run.time"), x, series, zero: true }).root;
    }))),
  ].filter(Boolean));
  const players = views.map((view) => view.start());
  if (players.length) go = together(players, drawn.map((result) => result.replay));
  show(share);
  return { stop: pause, get share() { return share; }, get playing() { return timer !== 0; }, start, stages: views.map((view) => view.drawn) };
}
