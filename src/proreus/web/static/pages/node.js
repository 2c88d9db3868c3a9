// One node: how full it is, what runs on it, what it says of itself.
import { card, el, table } from "../dom.js";
import { amount, percent, t } from "../i18n.js";
import { live, POD, subscribe } from "../live.js";
import { bar, eventTable, fromApi, since } from "../parts.js";
import { podTable } from "../pod_table.js";
import { ask } from "../server.js";
import { failure, pairs } from "./objects.js";

export function node(root, [name]) {
  const totals = el("div", { class: "totals" }), state = el("span", { class: "tag" }), facts = el("div"), events = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("events.title") });
  const pods = podTable({ fixed: (row) => row[POD.node] === name, tall: 320 });

  function draw() {
    const told = live.nodes.get(name);
    if (!told) { state.textContent = t("node.gone"); return; }
    state.textContent = told.ready ? (told.cordoned ? t("node.cordoned") : t("node.ready")) : t("node.notReady");
    state.className = `tag ${told.ready ? (told.cordoned ? "phase-pending" : "phase-running") : "phase-failed"}`;
    totals.replaceChildren(...["cpu", "memory", "gpu", "pods"].filter((kind) => told[kind]).flatMap((kind) => {
      const [asked, room] = told[kind], used = told.used?.[kind];
      return [el("span", null, t(`resource.${kind}`)), bar(asked / room, { used: used === undefined ? undefined : used / room, hot: asked > room }),
        el("span", { class: "soft amount" }, `${percent(asked / (room || 1))} · ${amount(kind, asked)} / ${amount(kind, room)}${used === undefined ? "" : ` · ${t("cluster.inUse", { amount: amount(kind, used) })}`}`)];
    }));
  }

  async function read() {
    try {
      const object = await ask(`api/v1/nodes/${encodeURIComponent(name)}`);
      const conditions = object.status?.conditions ?? [];
      facts.replaceChildren(pairs([[t("object.created"), since(object.metadata.creationTimestamp)], [t("node.taints"), (object.spec?.taints ?? []).map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`).join(", ") || t("object.none")]]),
        el("h3", null, t("object.labels")), pairs(Object.entries(object.metadata.labels ?? {})),
        el("h3", null, t("object.conditions")), table([t("object.condition"), t("object.status"), t("object.message")], conditions.map((one) => [one.type, one.status, one.message ?? ""]), { class: "stack" }));
      const listed = await ask(`api/v1/events?fieldSelector=${encodeURIComponent(`involvedObject.kind=Node,involvedObject.name=${name}`)}`);
      events.replaceChildren(eventTable(listed.items.map(fromApi).sort((a, b) => Date.parse(b.time) - Date.parse(a.time)), { about: false }));
    } catch (error) { facts.replaceChildren(failure(error)); }
  }

  root.append(card(el("h2", null, `${t("node.title")} `, el("span", { class: "id" }, name), " ", state), { class: "half" }, totals),
    card(t("object.about"), { class: "half" }, facts), pods.root, card(t("events.title"), null, events));
  pods.root.classList.add("full");
  draw();
  read();
  const stop = subscribe((news) => { if (news.nodes) draw(); });
  return () => { stop(); pods.stop(); };
}
