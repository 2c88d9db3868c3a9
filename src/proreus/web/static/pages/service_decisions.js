// A service decides too often to show each decision: how many, how fast, by whom, and what was refused.
import { card, el, table } from "../dom.js";
import { figure, t } from "../i18n.js";
import { lineChart } from "../line_chart.js";
import { ask } from "../server.js";
import { failure } from "./objects.js";

const EVERY_MS = 2000, KEPT = 180;

// Prometheus' text: [[name, {label: value}, number]]
export function samples(text) {
  return text.split("\n").flatMap((line) => {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) return [];
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    return [[match[1], labels, Number(match[3])]];
  });
}

export function serviceDecisions(root) {
  let gone = false, timer = 0, before = null;
  const rates = lineChart({ title: t("service.rate"), unit: "1/s", xTitle: t("decisions.time"), xText: (at) => new Date(at).toLocaleTimeString(), x: [], series: [{ name: t("service.rate"), values: [] }], zero: true });
  const times = lineChart({ title: t("service.mean"), unit: "ms", xTitle: t("decisions.time"), xText: (at) => new Date(at).toLocaleTimeString(), x: [], series: [{ name: t("service.mean"), values: [] }], zero: true });
  const counts = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("service.counts") });
  const history = [];
  async function look() {
    if (gone) return;
    try {
      const told = samples(await ask("metrics", { as: "text" })), now = Date.now();
      const sum = (wanted) => told.filter(([name, labels]) => name === wanted && labels.part === "whole").reduce((total, [, , value]) => total + value, 0);
      const made = sum("proreus_request_seconds_count"), seconds = sum("proreus_request_seconds_sum");
      if (before) {
        const lasted = (now - before.now) / 1000, asked = made - before.made;
        history.push([now, Math.max(0, (made - before.made) / lasted), asked > 0 ? (seconds - before.seconds) / asked * 1000 : null]);
        history.splice(0, history.length - KEPT);
        rates.update({ x: history.map((one) => one[0]), series: [{ name: t("service.rate"), values: history.map((one) => one[1]) }] });
        times.update({ x: history.map((one) => one[0]), series: [{ name: t("service.mean"), values: history.map((one) => one[2]) }] });
      }
      before = { now, made, seconds };
      const shown = told.filter(([name]) => /^proreus_.*_total$/.test(name));
      counts.replaceChildren(table([t("service.what"), t("service.of"), t("service.count")], shown.map(([name, labels, value]) => [name.replace(/^proreus_|_total$/g, ""), Object.entries(labels).map(([label, given]) => `${label} ${given}`).join(", "), figure(value, 0)])));
    } catch (error) { if (!gone) counts.replaceChildren(failure(error)); }
    timer = setTimeout(look, EVERY_MS);
  }
  root.append(card(t("service.title"), { class: "two-thirds" }, rates.root, times.root), card(t("service.counts"), { class: "third" }, counts));
  look();
  return () => { gone = true; clearTimeout(timer); };
}
