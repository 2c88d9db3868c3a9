// One pod: how it came to be where it is, step by step; why there; what it prints.
import { card, el, link, svg, table } from "../dom.js";
import { duration, figure, moment, percent, t } from "../i18n.js";
import { keyOf, live, subscribe } from "../live.js";
import { eventTable, fromApi, phaseTag, since } from "../parts.js";
import { saveButtons } from "../saving.js";
import { ask } from "../server.js";
import { failure, pairs } from "./objects.js";

const DECISION = "proreus.io/decision", TAIL = 200;

export function pod(root, [namespace, name]) {
  const path = `api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`;
  const head = el("h2"), facts = el("div"), time = el("div"), why = el("div"), events = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("events.title") });
  const log = el("pre", { class: "log", tabindex: "0", role: "region", "aria-label": t("pod.log") }), container = el("select", { "aria-label": t("pod.container"), on: { change: () => readLog() } });

  let bound = false;
  async function readLog() {
    if (!bound) { log.textContent = t("pod.logEmpty"); return; }
    log.textContent = t("pod.logReading");
    try {
      const text = await ask(`${path}/log?tailLines=${TAIL}&container=${encodeURIComponent(container.value)}`, { as: "text" });
      log.textContent = text || t("pod.logEmpty");
    } catch (error) { log.textContent = error.message; }
  }

  async function read() {
    let object;
    try { object = await ask(path); } catch (error) { facts.replaceChildren(failure(error)); time.replaceChildren(); return; }
    const owner = (object.metadata.ownerReferences ?? []).find((one) => one.controller);
    head.replaceChildren(`${t("pod.title")} `, el("span", { class: "id" }, name), " ", phaseTag(object.metadata.deletionTimestamp ? "Terminating" : object.status?.phase ?? "Unknown"));
    facts.replaceChildren(pairs([
      [t("pods.namespace"), namespace], [t("pods.node"), object.spec.nodeName ? link(object.spec.nodeName, "node", object.spec.nodeName) : t("object.none")],
      [t("pods.workload"), owner ? link(`${owner.kind} ${owner.name}`, "workload", owner.kind, namespace, owner.name) : t("object.none")],
      [t("pod.scheduler"), object.spec.schedulerName ?? ""], [t("object.created"), since(object.metadata.creationTimestamp)],
      ...object.spec.containers.map((one) => [t("pod.containerNamed", { name: one.name }), `${one.image ?? ""} ${Object.entries(one.resources?.requests ?? {}).map(([resource, value]) => `${resource} ${value}`).join(", ")}`])]),
    el("h3", null, t("object.labels")), pairs(Object.entries(object.metadata.labels ?? {})));
    time.replaceChildren(...timeline(object));
    why.replaceChildren(...reasonsOf(object));
    const first = Boolean(object.spec.nodeName) && !bound;
    bound = Boolean(object.spec.nodeName);
    const names = object.spec.containers.map((one) => one.name);
    if (first || [...container.options].map((one) => one.value).join() !== names.join()) { container.replaceChildren(...names.map((one) => el("option", { value: one }, one))); readLog(); }
    try {
      const listed = await ask(`api/v1/namespaces/${encodeURIComponent(namespace)}/events?fieldSelector=${encodeURIComponent(`involvedObject.name=${name}`)}`);
      events.replaceChildren(eventTable(listed.items.map(fromApi).sort((a, b) => Date.parse(b.time) - Date.parse(a.time)), { about: false }));
    } catch (error) { events.replaceChildren(failure(error)); }
  }

  function reasonsOf(object) {
    const text = object.metadata.annotations?.[DECISION];
    let note = null;
    try { note = text ? JSON.parse(text) : null; } catch { /* somebody wrote what is no decision */ }
    const told = live.decisions.find((one) => one.pod === name && one.namespace === namespace);
    if (!note) {
      const waits = (object.status?.conditions ?? []).find((one) => one.type === "PodScheduled" && one.status === "False");
      return [el("p", null, waits?.message ?? t("pod.noReason"))];
    }
    const made = [pairs([[t("decisions.head.policy"), `${note.policy ?? ""}${note.version ? ` @${note.version}` : ""}`],
      [t("decisions.head.node"), note.node ?? note.preempts ?? note.decision ?? ""], [t("decisions.head.next"), note.next?.node ?? t("object.none")],
      [t("decisions.head.latency"), note.ms === undefined ? "" : t("unit.ms", { n: figure(note.ms, 2) })],
      [t("pod.feasible"), t("pod.feasibleOf", { feasible: note.feasible ?? "?", of: note.of ?? "?" })]])];
    if (told?.reasons?.length) made.push(el("ul", null, told.reasons.map((reason) => el("li", null, reason))));
    const factors = Object.entries(note.factors ?? {}).filter(([, pair]) => Array.isArray(pair) && pair.length === 2);
    const rows = [["", note.score, note.next?.score], ...factors.map(([factor, [mine, other]]) => [factor, mine, other])];
    if (note.score !== undefined) {
      made.push(el("h3", null, t("pod.scores"), saveButtons({ name: `scores-${name}`, rows: () => [["factor", note.node, note.next?.node ?? ""], ...rows] })),
        table([t("pod.factor"), note.node ?? "", note.next?.node ?? ""], rows.map(([factor, mine, other]) => [factor || t("pod.total"), scored(mine, [mine, other]), scored(other, [mine, other])]), { class: "scores" }));
    }
    const refused = Object.entries(note.refused ?? {});
    if (refused.length) made.push(el("h3", null, t("pod.refused")), table([t("pod.filter"), t("nodes.title")], refused.map(([filter, count]) => [filter, figure(count, 0)])));
    if (note.use) made.push(el("p", { class: "soft" }, t("pod.fills", { node: note.node, cpu: percent(note.use.cpu), memory: percent(note.use.memory) })));
    if (note.shadow) made.push(el("h3", null, t("shadow.title")), el("p", null, t("pod.shadow", { policy: note.shadow.policy, target: note.shadow.node ?? note.shadow.preempts ?? note.shadow.decision ?? "" }), note.shadow.would ? el("span", { class: "note" }, note.shadow.would) : ""));
    return made;
  }

  const again = el("button", { type: "button", on: { click: readLog } }, t("pod.logAgain"));
  root.append(el("section", { class: "card half" }, head, facts), card(t("pod.why"), { class: "half why" }, why), card(t("pod.timeline"), null, time),
    card(t("events.title"), { class: "half" }, events), card(el("h2", null, t("pod.log"), " ", el("small", null, container, " ", again)), { class: "half" }, log));
  read();
  const mine = keyOf([namespace, name]);
  return subscribe((news) => { if (news.pods === "all" || news.pods?.has?.(mine)) read(); });
}

function scored(value, both) {
  if (value === undefined || value === null) return "";
  const most = Math.max(...both.filter((one) => typeof one === "number").map(Math.abs), 1e-9);
  return el("span", { class: "score" }, el("i", { css: { width: `${Math.abs(value) / most * 100}%` } }), el("b", null, typeof value === "number" ? figure(value, 3) : String(value)));
}

// The moments of a pod on one line.
function timeline(object) {
  const conditions = object.status?.conditions ?? [], at = (type) => conditions.find((one) => one.type === type && one.status === "True")?.lastTransitionTime;
  const ended = (object.status?.containerStatuses ?? []).map((one) => one.state?.terminated?.finishedAt).filter(Boolean).sort().at(-1);
  const moments = [["created", object.metadata.creationTimestamp], ["scheduled", at("PodScheduled")], ["started", object.status?.startTime], ["ready", at("Ready") ?? at("ContainersReady")], ["ended", ended]]
    .filter(([, stamp]) => stamp && !Number.isNaN(Date.parse(stamp))).map(([what, stamp]) => [what, Date.parse(stamp)]).sort((a, b) => a[1] - b[1]);
  if (!moments.length) return [el("p", { class: "none" }, t("object.none"))];
  const first = moments[0][1], last = Math.max(moments.at(-1)[1], first + 1000), wide = 900;
  const px = (time) => 60 + (time - first) / (last - first) * (wide - 200);
  const drawn = svg("svg", { class: "timeline", viewBox: `0 0 ${wide} ${36 + 26 * moments.length}`, role: "img", "aria-label": moments.map(([what, time]) => `${t(`pod.moment.${what}`)} ${moment(time)}`).join(", ") },
    svg("path", { class: "axis", d: `M60 16H${wide - 140}` }),
    moments.map(([what, time], place) => svg("g", null, svg("path", { class: "drop", d: `M${px(time)} 16V${36 + 26 * place}` }), svg("circle", { class: `dot dot-${what}`, cx: px(time), cy: 16, r: 6 }),
      svg("text", { x: px(time) + (px(time) > wide * 0.62 ? -8 : 8), y: 40 + 26 * place, "text-anchor": px(time) > wide * 0.62 ? "end" : "start" }, `${t(`pod.moment.${what}`)} · ${moment(time)} (+${duration((time - first) / 1000)})`))));
  return [saveButtons({ name: `timeline-${object.metadata.name}`, picture: () => drawn, rows: () => [["moment", "time"], ...moments.map(([what, time]) => [what, new Date(time).toISOString()])] }), drawn];
}
