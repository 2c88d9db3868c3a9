// One Deployment, ReplicaSet or Job: what it wants, what it has, its pods.
import { card, el, link } from "../dom.js";
import { t } from "../i18n.js";
import { live, POD, subscribe } from "../live.js";
import { eventTable, fromApi, since } from "../parts.js";
import { podTable } from "../pod_table.js";
import { ask } from "../server.js";
import { failure, pairs } from "./objects.js";

const PATHS = { Deployment: ["apis/apps/v1", "deployments"], ReplicaSet: ["apis/apps/v1", "replicasets"], Job: ["apis/batch/v1", "jobs"] };

export function workload(root, [kind, namespace, name]) {
  const facts = el("div"), events = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("events.title") }), below = el("div");
  const owners = new Set([`${kind}/${name}`]);
  let pods = podTable({ fixed: (row) => row[POD.namespace] === namespace && owners.has(row[POD.owner]), tall: 320 });
  const place = el("div", { class: "full" }, pods.root);

  async function read() {
    const at = PATHS[kind];
    if (!at) { facts.replaceChildren(el("p", { class: "none" }, t("object.none"))); return; }
    const inside = `${at[0]}/namespaces/${encodeURIComponent(namespace)}`;
    try {
      const object = await ask(`${inside}/${at[1]}/${encodeURIComponent(name)}`), status = object.status ?? {};
      const owner = (object.metadata.ownerReferences ?? []).find((one) => one.controller);
      const counts = kind === "Job"
        ? [[t("workload.completions"), `${status.succeeded ?? 0} / ${object.spec.completions ?? 1}`], [t("workload.active"), String(status.active ?? 0)], [t("phase.Failed"), String(status.failed ?? 0)]]
        : [[t("workload.replicas"), `${status.readyReplicas ?? 0} / ${object.spec.replicas ?? 1}`], [t("workload.available"), String(status.availableReplicas ?? 0)]];
      facts.replaceChildren(pairs([...counts, [t("object.created"), since(object.metadata.creationTimestamp)], [t("pods.workload"), owner ? link(`${owner.kind} ${owner.name}`, "workload", owner.kind, namespace, owner.name) : t("object.none")]]),
        el("h3", null, t("object.labels")), pairs(Object.entries(object.metadata.labels ?? {})));
      if (kind === "Deployment") {
        const sets = (await ask(`${inside}/replicasets`)).items.filter((set) => (set.metadata.ownerReferences ?? []).some((one) => one.uid === object.metadata.uid));
        below.replaceChildren(el("h3", null, "ReplicaSet"), el("ul", null, sets.map((set) => el("li", null, link(set.metadata.name, "workload", "ReplicaSet", namespace, set.metadata.name), ` ${set.status?.readyReplicas ?? 0} / ${set.spec?.replicas ?? 0}`))));
        const known = owners.size;
        for (const set of sets) owners.add(`ReplicaSet/${set.metadata.name}`);
        if (owners.size !== known) { pods.stop(); pods = podTable({ fixed: (row) => row[POD.namespace] === namespace && owners.has(row[POD.owner]), tall: 320 }); place.replaceChildren(pods.root); }
      }
      const listed = await ask(`api/v1/namespaces/${encodeURIComponent(namespace)}/events?fieldSelector=${encodeURIComponent(`involvedObject.name=${name}`)}`);
      events.replaceChildren(eventTable(listed.items.map(fromApi).sort((a, b) => Date.parse(b.time) - Date.parse(a.time)), { about: false }));
    } catch (error) { facts.replaceChildren(failure(error)); }
  }

  root.append(card(el("h2", null, `${kind} `, el("span", { class: "id" }, name)), { class: "half" }, facts, below), card(t("events.title"), { class: "half" }, events), place);
  read();
  let last = Date.now();
  const stop = subscribe((news) => {
    if (!news.pods || Date.now() - last < 2000) return;
    if (news.pods !== "all" && ![...news.pods].some(([key, before]) => owners.has((live.pods.get(key) ?? before)?.[POD.owner]))) return;
    last = Date.now();
    read();
  });
  return () => { stop(); pods.stop(); };
}
