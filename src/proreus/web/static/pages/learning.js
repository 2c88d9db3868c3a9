// How policies learn: runs with their curves and what was judged on held-out work; versions that are live or can be; candidates on their way.
import { card, el, link, table } from "../dom.js";
import { figure, t } from "../i18n.js";
import { lineChart } from "../line_chart.js";
import { since } from "../parts.js";
import { about, ask } from "../server.js";
import { failure, pairs } from "./objects.js";

const AGAIN_MS = 4000, STAGES = ["shadow", "share", "all"];

export function learning(root, [kind, id], { askForToken }) {
  let gone = false;
  const timers = [];
  // What changes is read again and again, for as long as somebody looks.
  const keep = (work, every = AGAIN_MS) => {
    const look = async () => { if (gone) return; try { await work(); } catch (error) { if (!gone) root.replaceChildren(card(t("learning.title"), null, failure(error))); return; } if (!gone) timers.push(setTimeout(look, every)); };
    look();
  };

  async function act(path, message, body, method = "POST") {
    if (!confirm(message)) return null;
    try { return await ask(path, { method, body: body ?? {} }); } catch (error) {
      if (error.status === 401 || error.status === 403) { askForToken(`${t("learning.needsToken")} (${error.message})`); return null; }
      alert(error.message);
      return null;
    }
  }

  const signed = (value) => `${value > 0 ? "+" : ""}${figure(value, 3)}`;
  // What was found on the episodes that checkpoints are chosen on flatters: it is told apart.
  const gainOf = (best) => (best === null ? "–" : el("span", { class: best.confirmed && best.mean > 0 ? "" : "soft" }, signed(best.mean),
    best.low === null ? "" : ` (${signed(best.low)} … ${signed(best.high)})`, best.confirmed ? "" : ` ${t("runs.unconfirmed")}`));

  function runsCard() {
    const body = el("div");
    keep(async () => {
      const { items } = await ask("dashboard/runs");
      body.replaceChildren(items.length
        ? table(["name", "world", "algorithm", "scenarios", "done", "state", "best"].map((head) => t(`runs.${head}`)), items.map((run) => (run.trouble
          ? [run.name, el("span", { class: "bad" }, run.trouble), "", "", "", "", ""]
          : [link(run.name, "learning", "run", run.id), run.world, run.algorithm, run.scenarios.join(", "), figure(run.done, 0),
            el("span", { class: `tag ${run.state === "live" ? "phase-running" : run.state === "finished" ? "phase-succeeded" : "phase-unknown"}` }, t(`runs.state.${run.state}`)),
            gainOf(run.best)])), { class: "stack" })
        : el("div", null, el("p", null, t("runs.none")), el("pre", null, "proreus train pods --algo es --scenarios gpu --out runs/x\nproreus dashboard runs")));
    });
    return card(t("runs.title"), { class: "full" }, body);
  }

  function versionsTable(model, promote, rollBack) {
    const rows = [...model.versions].reverse().map((version) => [`${version.version}`, el("span", { class: `tag ${version.state === "live" ? "phase-running" : version.state === "rejected" ? "phase-failed" : "phase-unknown"}` }, t(`versions.state.${["live", "kept", "rejected", "damaged"].includes(version.state) ? version.state : "kept"}`)),
      version.created ? since(version.created) : "", figure(version.steps ?? 0, 0), Object.entries(version.scores ?? {}).map(([name, value]) => `${name} ${figure(value, 3)}`).join(", "), version.note,
      version.version === model.live ? "" : el("button", { type: "button", class: "promote", on: { click: () => promote(version.version) } }, t("versions.promote"))]);
    return el("div", null, el("p", { class: "buttons" }, el("b", null, model.model), t("versions.live", { version: model.live }), el("button", { type: "button", class: "rollback", on: { click: rollBack } }, t("versions.rollback"))),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("versions.title") }, table(["version", "state", "created", "steps", "scores", "note", "act"].map((head) => t(`versions.${head}`)), rows, { class: "stack" })));
  }

  function serviceCards() {
    const versions = el("div"), status = el("div");
    const read = async () => {
      const [model, health] = await Promise.all([ask("v1/models"), ask("health")]);
      versions.replaceChildren(versionsTable({ model: model.model, live: model.live, versions: model.versions },
        async (version) => { if (await act(`v1/models/${version}/promote`, t("versions.sure", { version }))) read(); }, async () => { if (await act("v1/models/rollback", t("versions.sureBack"))) read(); }));
      const metrics = await ask("metrics", { as: "text" });
      const value = (name) => { const line = metrics.split("\n").find((one) => one.startsWith(`${name} `)); return line ? figure(Number(line.split(" ").at(-1)), 1) : "–"; };
      const results = ["accepted", "rejected", "failed"].map((result) => { const line = metrics.split("\n").find((one) => one.startsWith("proreus_updates_total") && one.includes(`"${result}"`)); return `${t(`online.${result}`)} ${line ? figure(Number(line.split(" ").at(-1)), 0) : 0}`; }).join(", ");
      status.replaceChildren(pairs([[t("online.status"), health.learning ? t("online.on") : t("online.off")], [t("online.queue"), value("proreus_learner_queue")], [t("online.lag"), `${value("proreus_learner_lag_seconds")} s`], [t("online.rounds"), results], [t("online.restarts"), value("proreus_learner_restarts")], ...(health.trouble ? [[t("online.trouble"), el("span", { class: "bad" }, health.trouble)]] : [])]));
    };
    keep(read);
    return [card(t("versions.title"), { class: "two-thirds" }, versions), card(t("online.title"), { class: "third" }, status)];
  }

  function storesCard() {
    const body = el("div");
    const read = async () => {
      const { items } = await ask("dashboard/models");
      body.replaceChildren(...items.map((store) => el("div", null, el("h3", null, store.name), store.trouble && el("p", { class: "bad" }, store.trouble), store.models.map((model) => {
        const at = `dashboard/models/${encodeURIComponent(store.id)}/${encodeURIComponent(model.model)}`;
        return versionsTable(model, async (version) => { if (await act(`${at}/${version}/promote`, t("versions.sure", { version }))) read(); }, async () => { if (await act(`${at}/rollback`, t("versions.sureBack"))) read(); });
      }))));
    };
    keep(read, 8000);
    return card(t("versions.title"), { class: "full" }, body);
  }

  function schedulersCard() {
    const body = el("div");
    const read = async () => {
      const { schedulers } = await ask("v1/schedulers");
      body.replaceChildren(...schedulers.map((one) => {
        const told = one.promotion, now = told?.stage ?? (one.candidate ? "shadow" : "");
        const put = (choice, message) => act(`v1/schedulers/${encodeURIComponent(one.name)}`, message, choice, "PUT").then((done) => done && read());
        const plain = { policy: one.policy, shadow: one.shadow, deadline_ms: one.deadline_ms };
        return el("div", { class: "scheduler" }, el("h3", null, one.name), pairs([[t("schedulers.policy"), one.policy], [t("schedulers.shadow"), one.shadow || t("object.none")], [t("schedulers.deadline"), t("unit.ms", { n: figure(one.deadline_ms, 1) })], [t("schedulers.candidate"), one.candidate || t("object.none")],
          ...(one.refused ? [[t("schedulers.refused"), el("span", { class: "bad" }, one.refused)]] : []), ...Object.entries(one.failing ?? {}).map(([who, why]) => [who, el("span", { class: "bad" }, why)])]),
        one.candidate && el("ol", { class: "stages", "aria-label": t("schedulers.way") }, now === "refused" ? el("li", { class: "refused" }, t("stage.refused")) : STAGES.map((stage) => el("li", { class: stage === now ? "now" : STAGES.indexOf(stage) < STAGES.indexOf(now) ? "done" : "", "aria-current": stage === now ? "step" : null }, t(`stage.${stage}`), stage === "share" ? ` ${figure(100 * one.share, 0)} %` : ""))),
        told && el("p", { class: "soft" }, `${told.told || t("schedulers.notJudged")} · ${t("schedulers.pods", { pods: told.pods, needed: told.needed })}`),
        one.candidate && el("p", { class: "buttons" }, el("button", { type: "button", class: "promote", on: { click: () => put({ ...plain, policy: one.candidate }, t("schedulers.sure", { policy: one.candidate })) } }, t("schedulers.promote")),
          el("button", { type: "button", class: "rollback", on: { click: () => put(plain, t("schedulers.sureBack", { policy: one.policy })) } }, t("schedulers.withdraw"))), switcher(one, put, plain));
      }));
    };
    keep(read, 5000);
    return card(el("h2", null, t("schedulers.title"), " ", el("small", { class: "soft" }, t("schedulers.about"))), { class: "full" }, body);
  }

  let policies = null;
  function switcher(one, put, plain) {
    const pick = el("select", { "aria-label": t("schedulers.pick") }), how = el("select", { "aria-label": t("schedulers.how") }, ["candidate", "shadow", "policy"].map((role) => el("option", { value: role }, t(`schedulers.as.${role}`))));
    const fill = () => pick.replaceChildren(...(policies ?? []).map((policy) => el("option", { value: policy.name, title: policy.about }, policy.name)));
    if (policies) fill(); else ask("v1/policies").then((told) => { policies = told.policies; fill(); }).catch(() => pick.remove());
    return el("p", { class: "buttons" }, pick, how, el("button", { type: "button", on: { click: () => put({ ...plain, [how.value]: pick.value }, t("schedulers.sure", { policy: pick.value })) } }, t("schedulers.set")));
  }

  async function runDetail() {
    const charts = el("div", { class: "charts" }), facts = el("div"), said = el("div");
    let judged = null, trained = null;
    root.append(card(el("h2", null, link(t("runs.title"), "learning"), " / ", el("span", { class: "id" })), { class: "half" }, facts), card(t("runs.said"), { class: "half" }, said), card(t("runs.curves"), { class: "full" }, charts));
    keep(async () => {
      const run = await ask(`dashboard/runs/${encodeURIComponent(id)}`);
      root.querySelector(".id").textContent = run.name;
      facts.replaceChildren(pairs([[t("runs.world"), run.world], [t("runs.algorithm"), run.algorithm], [t("runs.scenarios"), run.scenarios.join(", ")], [t("play.seed"), String(run.seed ?? "")], [t("runs.done"), `${figure(run.done, 0)} ${t(`runs.step.${run.step}`)}`], [t("runs.state"), t(`runs.state.${run.state}`)]]),
        el("details", null, el("summary", null, t("runs.config")), pairs(Object.entries(run.config).map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]))));
      const gains = Object.entries(run.improvement?.gains ?? {});
      said.replaceChildren(el("p", null, run.said || t("runs.notYet")), gains.length ? table([t("play.scenario"), t("runs.gain"), t("runs.interval"), "n"], gains.map(([name, gain]) => [name, figure(gain.mean, 3), gain.low === null ? "–" : `${figure(gain.low, 3)} … ${figure(gain.high, 3)}`, String(gain.n)])) : "");
      const held = { x: run.judged.x, series: run.judged.series };
      if (judged) { judged.update(held); trained.update({ x: run.trained.map((point) => point[0]), series: [{ name: t("runs.training"), values: run.trained.map((point) => point[1]) }] }); } else {
        judged = lineChart({ title: t("runs.heldOut"), xTitle: t(`runs.step.${run.step}`), zero: true, ...held });
        trained = lineChart({ title: t("runs.training"), xTitle: t(`runs.step.${run.step}`), x: run.trained.map((point) => point[0]), series: [{ name: t("runs.training"), values: run.trained.map((point) => point[1]) }] });
        charts.append(judged.root, trained.root);
      }
    });
  }

  if (kind === "run" && id) runDetail();
  else {
    if (about.cluster) root.append(schedulersCard());
    if (about.service) root.append(...serviceCards());
    if (about.models?.length) root.append(storesCard());
    root.append(runsCard());
  }
  return () => { gone = true; timers.forEach(clearTimeout); };
}
