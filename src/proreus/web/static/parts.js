// Pieces that several pages show: bars, states, moments, events, reasons.
import { el, link, table } from "./dom.js";
import { ago, t } from "./i18n.js";

export const PHASES = ["Running", "Pending", "Succeeded", "Failed", "Terminating", "Unknown"];
export const phaseClass = (phase) => `phase-${PHASES.includes(phase) ? phase.toLowerCase() : "unknown"}`;

export const phaseName = (phase) => (PHASES.includes(phase) ? t(`phase.${phase}`) : phase);
export const phaseTag = (phase) => el("span", { class: `tag ${phaseClass(phase)}` }, phaseName(phase));
export const since = (stamp) => el("span", { class: "soft", title: stamp, data: { since: stamp } }, ago(stamp));

export function bar(share, { used, hot } = {}) {
  const part = (value) => `${Math.max(0, Math.min(1, value)) * 100}%`;
  return el("span", { class: "bar" }, el("i", { class: hot ? "hot" : "", css: { width: part(share) } }), used !== undefined && el("u", { css: { left: part(used) } }));
}

export const podLink = (namespace, name) => el("span", { class: "pod-name" }, link(name, "pod", namespace, name), el("small", { class: "soft" }, namespace));

export function target(decision) {
  if (decision.action === "place") return decision.node;
  if (decision.action === "preempt") return t("decision.preempt", { node: decision.node });
  return t(`decision.${["delay", "reject"].includes(decision.action) ? decision.action : "none"}`);
}

export function reasons(decision) {
  const [first, ...more] = decision.reasons ?? [];
  const flag = decision.fallback && el("span", { class: "note" }, t("decision.fallback"));
  if (!more.length) return el("span", null, flag, " ", first ?? "");
  return el("details", null, el("summary", null, flag, " ", first), el("ul", null, more.map((reason) => el("li", null, reason))));
}

export function aboutObject(event) {
  const kinds = { Pod: ["pod", event.namespace, event.name], Node: ["node", event.name] };
  const at = kinds[event.kind] ?? (["Deployment", "ReplicaSet", "Job"].includes(event.kind) ? ["workload", event.kind, event.namespace, event.name] : null);
  return at ? link(`${event.kind} ${event.name}`, ...at) : `${event.kind} ${event.name}`;
}

export function eventTable(events, { about = true } = {}) {
  if (!events.length) return el("p", { class: "none" }, t("events.none"));
  const heads = [t("events.when"), ...(about ? [t("events.about")] : []), t("events.reason"), t("events.message")];
  return table(heads, events.map((event) => [
    since(event.time), ...(about ? [aboutObject(event)] : []),
    el("span", { class: event.type === "Warning" ? "bad" : "" }, event.reason, event.count > 1 ? ` ×${event.count}` : ""), event.message]), { class: "stack" });
}

// Events as the API has them, for the page of one object.
export function fromApi(event) {
  const about = event.involvedObject ?? {};
  return { time: event.lastTimestamp ?? event.eventTime ?? event.metadata?.creationTimestamp ?? "", namespace: about.namespace ?? "", kind: about.kind ?? "", name: about.name ?? "",
    type: event.type ?? "", reason: event.reason ?? "", message: event.message ?? "", count: event.count ?? 1 };
}
