// The cluster now: pods by state, what is asked for, every node as a cell, every pod as a row, the queue, events.
import { card, el, table, way } from "../dom.js";
import { ago, amount, figure, percent, t } from "../i18n.js";
import { HeatMap, shareOf } from "../heat_map.js";
import { live, subscribe } from "../live.js";
import { bar, eventTable, PHASES, phaseClass, phaseName, podLink, since } from "../parts.js";
import { podTable } from "../pod_table.js";
import { saveButtons } from "../saving.js";

const SHOWN_EVENTS = 40;
const RESOURCES = ["cpu", "memory", "gpu", "pods"];

export function cluster(root) {
  const phases = el("div", { class: "phases" }), legend = el("div", { class: "legend" }), podsTotal = el("small", { class: "soft" });
  const requested = el("div", { class: "totals" }), summary = el("p", { class: "soft small" });
  const nodesTotal = el("small", { class: "soft" }), queueTotal = el("small", { class: "soft" });
  const queue = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("queue.title") });
  const events = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("events.title") });
  const heat = new HeatMap({ open: (name) => { location.hash = way("node", name).slice(1); } });
  const choose = el("select", { "aria-label": t("heat.resource"), on: { change: () => drawNodes() } });
  const order = el("select", { "aria-label": t("heat.order"), on: { change: () => drawNodes() } },
    ["name", "fullest"].map((one) => el("option", { value: one }, t(`heat.by.${one}`))));
  const find = el("input", { type: "search", placeholder: t("heat.search"), "aria-label": t("heat.search"), on: { input: () => drawNodes() } });
  const pods = podTable();

  let ordered = [], seen = -1;
  function inOrder() {
    if (seen === live.comings) return ordered;
    seen = live.comings;
    choices();
    ordered = [...live.nodes.keys()].sort(natural);
    return ordered;
  }

  function choices() {
    const kinds = RESOURCES.filter((resource) => [...live.nodes.values()].some((node) => node[resource]));
    const used = ["cpu", "memory"].filter((resource) => [...live.nodes.values()].some((node) => node.used));
    const wanted = [...kinds.map((kind) => [kind, t("heat.requested", { resource: t(`resource.${kind}`) })]), ...used.map((kind) => [`${kind}/used`, t("heat.used", { resource: t(`resource.${kind}`) })])];
    if (choose.options.length === wanted.length) return;
    const before = choose.value;
    choose.replaceChildren(...wanted.map(([value, text]) => el("option", { value }, text)));
    if (wanted.some(([value]) => value === before)) choose.value = before;
  }

  function drawNodes() {
    const names = inOrder();
    if (!choose.options.length || (choose.options.length < 5 && live.status?.used)) choices();
    const [resource, used] = (choose.value || "cpu").split("/"), text = find.value.toLowerCase().trim();
    const matching = (text ? names.filter((name) => name.toLowerCase().includes(text)) : names).map((name) => live.nodes.get(name));
    // The sort is stable: those that are alike stay in the order of their names.
    if (order.value === "fullest") matching.sort((a, b) => (shareOf(b, resource, Boolean(used)) ?? -1) - (shareOf(a, resource, Boolean(used)) ?? -1));
    heat.show(matching, resource, Boolean(used));
  }

  function drawStatus() {
    const told = live.status;
    if (!told) return;
    summary.textContent = [told.version && t("about.version", { version: told.version }), told.started && t("about.up", { time: ago(told.started) }),
      ...(told.schedulers ?? []).map((one) => t("about.scheduler", { name: one.name, policy: one.policy }) + (one.shadow ? t("about.shadow", { policy: one.shadow }) : ""))].filter(Boolean).join(" · ");
    const counts = told.phases ?? {}, all = Object.values(counts).reduce((a, b) => a + b, 0);
    podsTotal.textContent = told.synced === false ? t("pods.reading") : figure(all, 0);
    const named = PHASES.filter((phase) => counts[phase]);
    phases.replaceChildren(...named.map((phase) => el("i", { class: phaseClass(phase), title: phaseName(phase), css: { width: `${counts[phase] / all * 100}%` } })));
    legend.replaceChildren(...PHASES.filter((phase) => counts[phase] || phase === "Running" || phase === "Pending").map((phase) =>
      el("button", { type: "button", on: { click: () => { pods.search(`state:${phase.toLowerCase()}`); pods.root.scrollIntoView({ block: "start" }); } } }, el("i", { class: phaseClass(phase) }), `${phaseName(phase)} `, el("b", null, figure(counts[phase] ?? 0, 0)))));
    requested.replaceChildren(...Object.entries(told.requested ?? {}).filter(([, [, room]]) => room > 0).flatMap(([resource, [asked, room]]) => {
      const used = told.used?.[resource], short = resource.replace(/^.*\//, "");
      return [el("span", null, RESOURCES.includes(short) ? t(`resource.${short}`) : short), bar(asked / room, { used: used === undefined ? undefined : used / room, hot: asked > room }),
        el("span", { class: "soft amount" }, `${percent(asked / room)} · ${amount(resource, asked)} / ${amount(resource, room)}${used === undefined ? "" : ` · ${t("cluster.inUse", { amount: amount(resource, used) })}`}`)];
    }));
    const of = told.nodes ?? {};
    nodesTotal.textContent = t("nodes.ready", { ready: figure(of.ready ?? 0, 0), total: figure(of.total ?? 0, 0) }) + (of.cordoned ? t("nodes.cordoned", { count: of.cordoned }) : "");
    const waiting = told.queue ?? { length: 0, pods: [] };
    queueTotal.textContent = waiting.length ? figure(waiting.length, 0) + (waiting.length > waiting.pods.length ? t("queue.first", { count: waiting.pods.length }) : "") : "";
    queue.replaceChildren(waiting.length
      ? table([t("queue.pod"), t("queue.waits"), t("queue.because")], waiting.pods.map((pod) => [podLink(pod.namespace, pod.name), since(pod.created), (pod.reason || t("queue.notYet")).split(" preemption: ")[0]]), { class: "stack" })
      : el("p", { class: "none" }, t("queue.none")));
  }

  const drawEvents = () => events.replaceChildren(eventTable([...live.events].reverse().slice(0, SHOWN_EVENTS)));

  root.append(
    card(el("h2", null, t("pods.title"), " ", podsTotal), { class: "half" }, phases, legend, summary),
    card(el("h2", null, t("cluster.requested"), " ", el("small", { class: "soft" }, t("cluster.mark"))), { class: "half" }, requested),
    card(el("h2", null, t("nodes.title"), " ", nodesTotal, saveButtons({ name: "nodes", picture: () => heat.canvas, rows: () => heat.rows() })), null,
      el("p", { class: "controls-row" }, choose, order, find, el("span", { class: "scale" }, "0 %", el("i"), "100 %")), heat.canvas, heat.told),
    pods.root,
    card(el("h2", null, t("queue.title"), " ", queueTotal), { class: "half" }, queue),
    card(t("events.title"), { class: "half" }, events));
  pods.root.classList.add("full");
  drawStatus();
  drawNodes();
  drawEvents();
  const stop = subscribe((news) => {
    if (news.status) drawStatus();
    if (news.nodes) drawNodes();
    if (news.events) drawEvents();
  });
  return () => { stop(); pods.stop(); heat.watch.disconnect(); };
}

const collator = new Intl.Collator("en", { numeric: true });
function natural(one, other) { return collator.compare(one, other); }
