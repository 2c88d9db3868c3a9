// The table of pods: any number of them, searched, sorted, in sight only.
import { el, link } from "./dom.js";
import { ago, amount, figure, t } from "./i18n.js";
import { live, POD, subscribe } from "./live.js";
import { phaseTag } from "./parts.js";
import { PodIndex } from "./pod_index.js";
import { saveButtons } from "./saving.js";
import { VirtualTable } from "./virtual_table.js";

export function podTable({ fixed, tall, found = "" } = {}) {
  const index = new PodIndex(fixed);
  const count = el("small", { class: "soft", role: "status" });
  const workload = (row) => {
    const [kind, name] = row[POD.owner].split("/");
    return row[POD.owner] ? link(row[POD.owner], "workload", kind, row[POD.namespace], name) : "";
  };
  const columns = [
    { title: t("pods.name"), sort: "name", narrow: true, cell: (row) => link(row[POD.name], "pod", row[POD.namespace], row[POD.name]) },
    { title: t("pods.namespace"), sort: "namespace", cell: (row) => row[POD.namespace] },
    { title: t("pods.state"), sort: "phase", narrow: true, cell: (row) => phaseTag(row[POD.phase]) },
    { title: t("pods.age"), sort: "created", narrow: true, cell: (row) => el("span", { title: row[POD.created], data: { since: row[POD.created] } }, ago(row[POD.created])) },
    { title: t("pods.node"), sort: "node", cell: (row) => (row[POD.node] ? link(row[POD.node], "node", row[POD.node]) : el("span", { class: "soft" }, "–")) },
    { title: t("pods.workload"), sort: "owner", cell: workload },
    { title: t("resource.cpu"), sort: "cpu", cell: (row) => figure(row[POD.cpu], 2) },
    { title: t("resource.memory"), sort: "memory", cell: (row) => amount("memory", row[POD.memory]) },
  ];
  const shown = new VirtualTable(columns, () => index.rows, {
    label: t("pods.title"), tall,
    onSort: (sort) => { index.order(sort); shown.mark(index.sort, index.down); shown.root.scrollTop = 0; shown.draw(true); },
  });
  shown.mark(index.sort, index.down);
  const told = () => {
    count.textContent = index.rows.length === live.pods.size ? figure(live.pods.size, 0) : t("pods.some", { shown: figure(index.rows.length, 0), all: figure(live.pods.size, 0) });
  };
  let typing = 0;
  const search = el("input", { type: "search", placeholder: t("pods.search"), "aria-label": t("pods.search"), title: t("pods.how"), value: found, on: { input: () => {
    clearTimeout(typing);
    typing = setTimeout(() => { index.filter(search.value); shown.root.scrollTop = 0; shown.draw(true); told(); }, 80);
  } } });
  if (found) index.filter(found);
  const head = el("h2", null, t("pods.title"), " ", count, saveButtons({ name: "pods", rows: () => [Object.keys(POD), ...index.rows] }));
  const root = el("section", { class: "card pods" }, head, el("p", { class: "search" }, search), shown.root);
  told();
  requestAnimationFrame(() => shown.draw(true));
  const stop = subscribe((news) => {
    if (!news.pods) return;
    index.apply(news.pods);
    shown.draw(true);
    told();
  });
  return { root, stop, search(text) { search.value = text; index.filter(text); shown.draw(true); told(); } };
}
