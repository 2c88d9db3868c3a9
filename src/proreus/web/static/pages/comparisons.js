// Comparisons: who is better where, with intervals; down to one scenario, one seed, one run, which can be replayed.
import { card, el, link, table } from "../dom.js";
import { figure, t } from "../i18n.js";
import { intervalChart } from "../interval_chart.js";
import { lineChart } from "../line_chart.js";
import { replayView } from "../replay_view.js";
import { catalogue, simulate } from "../run_simulation.js";
import { runView } from "../run_view.js";
import { ask } from "../server.js";
import { failure } from "./objects.js";

export function comparisons(root, [id, scenarioName]) {
  let gone = false, stop = () => {};
  const leave = (then) => { stop(); stop = then; };

  async function list() {
    const { items } = await ask("dashboard/comparisons");
    if (gone) return;
    if (!items.length) { root.append(card(t("comparisons.title"), null, el("p", null, t("comparisons.none")), el("pre", null, "proreus compare pods --scenario gpu --seeds 10 --out runs/gpu\nproreus dashboard runs"))); return; }
    root.append(card(t("comparisons.title"), null, table([t("comparisons.name"), t("play.world"), t("comparisons.scenarios"), t("comparisons.policies"), t("comparisons.seeds")],
      items.map((one) => (one.trouble ? [one.name, el("span", { class: "bad" }, one.trouble), "", "", ""]
        : [link(one.name, "comparisons", one.id), one.world, one.scenarios.join(", "), one.policies.join(", "), figure(one.seeds, 0)])), { class: "stack" })));
  }

  async function detail() {
    const told = await ask(`dashboard/comparisons/${encodeURIComponent(id)}`);
    if (gone) return;
    const name = told.scenarios.includes(scenarioName) ? scenarioName : told.scenarios[0];
    const place = told.scenarios.indexOf(name), places = Object.fromEntries(told.policies.map((policy, at) => [policy, at]));
    const rows = told.rows.filter((row) => row.scenario === name), measures = [...new Set(rows.map((row) => row.measure))].filter((measure) => rows.some((row) => row.measure === measure && row.mean !== 0));
    const runs = told.runs.rows.filter((run) => run[0] === name), column = (measure) => told.runs.columns.indexOf(measure);
    const tabs = el("nav", { class: "legend", "aria-label": t("comparisons.scenarios") }, told.scenarios.map((one) => el("a", { href: `#/comparisons/${encodeURIComponent(id)}/${encodeURIComponent(one)}`, class: "tab", "aria-current": one === name ? "page" : null }, one)));
    const choose = el("select", { "aria-label": t("run.measure"), on: { change: () => drawChart() } }, measures.map((measure) => el("option", { value: measure }, measure)));
    const chart = el("div");
    function drawChart() {
      const mine = rows.filter((row) => row.measure === choose.value), at = column(choose.value);
      const seeds = Object.fromEntries(told.policies.map((policy) => [policy, at < 0 ? [] : runs.filter((run) => run[1] === policy && run[at] !== "").map((run) => Number(run[at]))]));
      chart.replaceChildren(intervalChart({ title: choose.value, unit: mine[0].unit, better: mine[0].better, rows: mine, seeds, places }), ...whoIsBetter(told, name, choose.value, mine[0].better));
    }
    drawChart();
    const grid = table([t("run.measure"), ...told.policies], measures.map((measure) => {
      const mine = rows.filter((row) => row.measure === measure), better = mine[0].better;
      const best = better === "higher" ? Math.max(...mine.map((row) => row.mean)) : Math.min(...mine.map((row) => row.mean));
      return [el("td", null, measure, mine[0].unit ? el("small", { class: "soft" }, ` ${mine[0].unit}`) : "", el("span", { class: "soft", title: t(`better.${better}`) }, better === "higher" ? " ↑" : " ↓")), ...told.policies.map((policy) => {
        const row = mine.find((one) => one.policy === policy);
        return el("td", { class: `number ${row && row.mean === best ? "best" : ""}` }, row ? figure(row.mean, 3) : "–", row && row.low !== null ? el("small", { class: "soft" }, ` ± ${figure((row.high - row.low) / 2, 3)}`) : "");
      })];
    }));
    const shown = el("div", { class: "page full" }), status = el("p", { class: "soft", role: "status" });
    root.append(
      card(el("h2", null, link(t("comparisons.title"), "comparisons"), ` / ${told.name}`), null, told.command && el("p", { class: "soft" }, el("code", null, told.command)), tabs),
      card(t("comparisons.ranking"), { class: "half" }, el("p", { class: "controls-row" }, choose), chart),
      card(t("comparisons.table"), { class: told.policies.length > 3 ? "full" : "half" }, el("div", { class: "scroll tall named-rows", tabindex: "0", role: "region", "aria-label": t("comparisons.table") }, grid)),
      card(t("comparisons.seedsTitle"), { class: "full" }, el("p", { class: "soft" }, t("comparisons.seedsAbout")), seedTable(told, name, runs, measures, shown, status), status), shown);
    if (told.report) reportPart(told, place).catch((error) => root.append(card(t("player.title"), null, failure(error))));
  }

  // Against the best of the others, in the same seeds: what is common to all is taken out.
  function whoIsBetter(told, name, measure, better) {
    const found = told.differences.filter((one) => one.scenario === name && one.measure === measure);
    if (!found.length) return [];
    const sign = better === "higher" ? 1 : -1, signed = (value) => `${value > 0 ? "+" : ""}${figure(value, 3)}`;
    const verdict = ({ mean, low, high }) => (low === null || (low <= 0 && high >= 0) ? "open" : sign * mean > 0 ? "better" : "worse");
    const words = (one) => ({ policy: one.policy, baseline: one.baseline, mean: signed(one.mean), low: one.low === null ? "–" : signed(one.low), high: one.high === null ? "–" : signed(one.high), n: figure(one.n, 0) });
    const leader = found.find((one) => one.leads);
    return [leader && el("p", { class: "verdict" }, t(`comparisons.leader.${verdict(leader) === "better" ? "better" : "open"}`, words(leader))),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("comparisons.paired") }, table([t("comparisons.paired"), t("comparisons.against"), t("comparisons.difference"), t("runs.interval"), "n", ""],
        found.map((one) => [one.policy, one.baseline, signed(one.mean), one.low === null ? "–" : `${signed(one.low)} … ${signed(one.high)}`, figure(one.n, 0), t(`comparisons.is.${verdict(one)}`)])))].filter(Boolean);
  }

  // Every seed has a button that plays it again, and says who was best in it.
  function seedTable(told, name, runs, measures, shown, status) {
    const seeds = [...new Set(runs.map((run) => run[2]))];
    const first = measures.find((measure) => told.runs.columns.includes(measure)), at = told.runs.columns.indexOf(first);
    const pick = told.policies.slice(0, 2).map((policy) => el("select", { "aria-label": t("play.first") }, told.policies.map((one) => el("option", { value: one, selected: one === policy }, one))));
    const again = (seed) => el("button", { type: "button", class: "again", on: { click: () => play(seed) } }, t("comparisons.replay"));
    async function play(seed) {
      try {
        const known = await catalogue({ stopped: () => gone });
        const listed = known?.worlds.find((one) => one.name === told.world)?.scenarios.find((one) => one.name === name);
        const names = [...new Set(pick.map((one) => one.value))].filter((policy) => listed?.policies.some((one) => one.name === policy));
        if (!listed || !names.length) { status.textContent = t("comparisons.cannot"); return; }
        const results = await Promise.all(names.map((policy) => simulate({ world: told.world, scenario: name, policy, seed: Number(seed) }, { told: (text) => { status.textContent = text; }, stopped: () => gone })));
        if (gone || results.includes(null)) return;
        status.textContent = t("play.done", { scenario: name, seed });
        const view = runView(shown, results);
        leave(() => view.stop());
        view.start();
        shown.scrollIntoView({ block: "start", behavior: "smooth" });
      } catch (error) { status.replaceChildren(el("span", { class: "bad" }, error.message)); }
    }
    const cells = (seed) => told.policies.map((policy) => {
      const run = runs.find((one) => one[1] === policy && one[2] === seed);
      return el("td", { class: "number" }, run && at >= 0 && run[at] !== "" ? figure(Number(run[at]), 3) : "–");
    });
    return el("div", null, el("p", { class: "controls-row" }, t("comparisons.between"), pick), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("comparisons.seedsTitle") },
      table([t("play.seed"), ...told.policies.map((policy) => `${policy}${first ? ` · ${first}` : ""}`), ""], seeds.map((seed) => [seed, ...cells(seed), again(seed)]))));
  }

  // Curves and replays of the first seed, as the report has them.
  async function reportPart(told, place) {
    const data = await ask(`dashboard/comparisons/${encodeURIComponent(id)}/report`);
    if (gone) return;
    const replays = data.replays[`replay-${place}`] ?? {};
    const named = Object.fromEntries(Object.entries(replays).map(([at, replay]) => [data.policies[at], replay]));
    const charts = Object.entries(data.charts).filter(([key]) => key.startsWith(`chart-${place}-`));
    if (charts.length) {
      root.append(card(t("run.curves"), { class: "full" }, el("div", { class: "charts" }, charts.map(([key, chart]) => lineChart({ title: key.replace(/^chart-\d+-/, ""), unit: chart.unit, xTitle: chart.axis, x: chart.x,
        series: chart.series.map((values, at) => ({ name: data.policies[at], values: values ?? [] })).filter((series) => series.values.length) }).root))));
    }
    if (Object.keys(named).length) {
      const view = replayView(named, { title: t("player.first") });
      root.append(card(t("player.title"), { class: "full" }, view.root));
      const playing = view.start();
      leave(() => playing.pause());
    }
  }

  (id ? detail() : list()).catch((error) => root.append(card(t("comparisons.title"), null, failure(error))));
  return () => { gone = true; stop(); };
}
