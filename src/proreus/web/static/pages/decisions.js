// What was decided and why, as it happens; what a policy in the shadow would have done, and what that would have changed.
import { card, el, link, table } from "../dom.js";
import { figure, moment, percent, t } from "../i18n.js";
import { lineChart } from "../line_chart.js";
import { live, subscribe } from "../live.js";
import { podLink, reasons, target } from "../parts.js";
import { saveButtons } from "../saving.js";
import { about } from "../server.js";
import { serviceDecisions } from "./service_decisions.js";

const key = (one) => [one.namespace, one.pod, one.time].join("/");

export function decisions(root) {
  if (!about.cluster) return serviceDecisions(root);
  const body = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": t("decisions.title") });
  const apart = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("shadow.title") }), apartTotal = el("small", { class: "soft" });
  const total = el("small", { class: "soft" });
  const find = el("input", { type: "search", placeholder: t("decisions.search"), "aria-label": t("decisions.search"), on: { input: () => draw() } });
  const only = el("input", { type: "checkbox", id: "only-differing", on: { change: () => draw() } });
  const waits = lineChart({ title: t("decisions.latency"), unit: "ms", xTitle: t("decisions.order"), x: [], series: [{ name: t("decisions.latency"), values: [] }], zero: true });

  const node = (name) => (name ? link(name, "node", name) : "");
  function row(one, opened) {
    const why = reasons(one);
    if (why.tagName === "DETAILS") { why.dataset.key = key(one); if (opened.has(key(one))) why.open = true; }
    const shadow = one.shadow
      ? el("span", { class: one.shadow.differs ? "note" : "soft" }, one.shadow.differs ? target(one.shadow) : t("shadow.same"))
      : el("span", { class: "soft" }, "–");
    return [el("span", { class: "soft", title: one.time }, moment(one.time)), podLink(one.namespace, one.pod),
      el("span", { class: one.action === "place" ? "" : "bad" }, one.action === "place" ? node(one.node) : target(one)),
      node(one.next), el("span", null, one.policy, one.version ? el("small", { class: "soft" }, ` @${one.version}`) : ""),
      one.milliseconds === null || one.milliseconds === undefined ? "" : t("unit.ms", { n: figure(one.milliseconds, 2) }), why, shadow];
  }

  function draw() {
    const text = find.value.toLowerCase().trim(), opened = new Set([...body.querySelectorAll("details[open]")].map((one) => one.dataset.key));
    // In whatever order they came: by time, and of equal times the last that came first.
    const newest = [...live.decisions].reverse().sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    const shown = newest.filter((one) => (!only.checked || one.shadow?.differs)
      && (!text || [one.pod, one.namespace, one.node, one.policy, ...(one.reasons ?? [])].some((part) => String(part).toLowerCase().includes(text))));
    total.textContent = t("decisions.count", { shown: figure(shown.length, 0), all: figure(newest.length, 0) });
    const heads = ["when", "pod", "node", "next", "policy", "latency", "why", "shadow"].map((head) => t(`decisions.head.${head}`));
    body.replaceChildren(shown.length ? table(heads, shown.map((one) => row(one, opened)), { class: "stack decision-table" }) : el("p", { class: "none" }, t("decisions.none")));
    const shadowed = newest.filter((one) => one.shadow), differing = shadowed.filter((one) => one.shadow.differs);
    apartTotal.textContent = shadowed.length ? t("shadow.count", { differ: differing.length, of: shadowed.length, share: percent(differing.length / shadowed.length) }) : "";
    apart.replaceChildren(differing.length
      ? table(["when", "pod", "went", "shadow", "would"].map((head) => t(`shadow.head.${head}`)), differing.map((one) => [el("span", { class: "soft" }, moment(one.time)), podLink(one.namespace, one.pod),
        one.action === "place" ? node(one.node) : target(one), el("span", null, one.shadow.action === "place" ? node(one.shadow.node) : target(one.shadow), el("small", { class: "soft" }, ` ${one.shadow.policy}`)), one.shadow.would]), { class: "stack" })
      : el("p", { class: "none" }, shadowed.length ? t("shadow.agree") : t("shadow.none")));
    const timed = live.decisions.filter((one) => one.milliseconds !== null && one.milliseconds !== undefined).sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
    waits.update({ x: timed.map((_, place) => place + 1), series: [{ name: t("decisions.latency"), values: timed.map((one) => one.milliseconds) }] });
  }

  const csv = saveButtons({ name: "decisions", rows: () => [["time", "namespace", "pod", "action", "node", "next", "policy", "version", "milliseconds", "reasons", "shadow", "shadow node", "would"],
    ...live.decisions.map((one) => [one.time, one.namespace, one.pod, one.action, one.node, one.next, one.policy, one.version, one.milliseconds, (one.reasons ?? []).join("; "), one.shadow?.policy, one.shadow?.node, one.shadow?.would])] });
  root.append(
    card(el("h2", null, t("decisions.title"), " ", total, csv), null, el("p", { class: "controls-row" }, find, el("label", { for: "only-differing" }, only, ` ${t("decisions.only")}`)), body),
    card(el("h2", null, t("shadow.title"), " ", apartTotal), { class: "half" }, apart),
    card(t("decisions.speed"), { class: "half" }, waits.root));
  draw();
  return subscribe((news) => { if (news.decisions) draw(); });
}
