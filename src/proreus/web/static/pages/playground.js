// Play with it: a world, a seed, one policy or two on the same work; take a node away, double the load, and see what each does.
import { card, el } from "../dom.js";
import { t } from "../i18n.js";
import { catalogue, simulate } from "../run_simulation.js";
import { runView } from "../run_view.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
let kept = { seed: 0, load: 1, without: [], speed: 1 };

export function playground(root) {
  const status = el("p", { class: "soft", role: "status" }), shown = el("div", { class: "page full" });
  let view = null, worlds = [], round = 0, gone = false;

  const select = (label, attributes) => { const made = el("select", attributes); return [made, el("label", null, label, made)]; };
  const [world, worldLabel] = select(t("play.world"), { on: { change: () => { fillScenarios(); } } });
  const [scenario, scenarioLabel] = select(t("play.scenario"), { on: { change: () => fillPolicies() } });
  const [first, firstLabel] = select(t("play.first"));
  const [second, secondLabel] = select(t("play.second"));
  const [speed, speedLabel] = select(t("play.speed"), { on: { change: () => { kept.speed = Number(speed.value); } } });
  speed.append(...SPEEDS.map((one) => el("option", { value: String(one), selected: one === kept.speed }, `${one}×`)));
  const seed = el("input", { type: "number", min: "0", step: "1", value: String(kept.seed) });
  const go = el("button", { type: "submit", class: "main" }, t("play.run"));
  const form = el("form", { class: "pickers", on: { submit: (event) => { event.preventDefault(); kept.without = []; kept.load = 1; run(0); } } },
    worldLabel, scenarioLabel, firstLabel, secondLabel, el("label", null, t("play.seed"), seed), speedLabel, go);
  const about = el("p", { class: "soft small" });

  const chosenWorld = () => worlds.find((one) => one.name === world.value);
  const chosenScenario = () => chosenWorld()?.scenarios.find((one) => one.name === scenario.value);

  function fillScenarios() {
    const options = chosenWorld().scenarios.map((one) => el("option", { value: one.name }, one.name));
    scenario.replaceChildren(...options);
    if (chosenWorld().scenarios.some((one) => one.name === kept.scenario)) scenario.value = kept.scenario;
    about.textContent = chosenWorld().what;
    fillPolicies();
  }

  function fillPolicies() {
    const { policies, main } = chosenScenario(), names = policies.map((one) => one.name);
    const options = () => policies.map((one) => el("option", { value: one.name, title: one.about }, one.name));
    first.replaceChildren(...options());
    second.replaceChildren(el("option", { value: "" }, t("play.nobody")), ...options());
    const usual = main.filter((name) => names.includes(name));
    first.value = names.includes(kept.first) ? kept.first : usual[0] ?? names[0];
    second.value = names.includes(kept.second) || kept.second === "" ? kept.second : names.includes("learned") && first.value !== "learned" ? "learned" : usual[1] ?? "";
  }

  // Boxes can be dragged out of the picture, or chosen from a list by who does not drag.
  function outside(results) {
    const can = chosenScenario() ?? {}, names = results[0].boxes;
    const place = chosenWorld()?.place ?? "";
    const load = el("button", { type: "button", class: "load", disabled: !can.load, "aria-pressed": String(kept.load > 1), on: { click: () => { kept.load = kept.load > 1 ? 1 : 2; run(view?.share ?? 0); } } }, kept.load > 1 ? t("play.usual") : t("play.double"));
    const pick = el("select", { "aria-label": t("play.pick", { place }) }, names.filter((name) => !kept.without.includes(name)).slice(0, 1000).map((name) => el("option", { value: name }, name)));
    const take = el("button", { type: "button", class: "take-out", disabled: !can.without || !names.length, on: { click: () => out(pick.value) } }, t("play.out"));
    const zone = el("div", { class: "drop-zone", hidden: !can.without }, t("play.drop", { place }), el("ul", { class: "chips" }, kept.without.map((name) => el("li", null, name, el("button", { type: "button", "aria-label": t("play.back", { name }), on: { click: () => { kept.without = kept.without.filter((one) => one !== name); run(view?.share ?? 0); } } }, "×")))));
    return el("div", { class: "buttons vary" }, load, pick, take, zone);
  }

  function out(name) {
    if (!name || kept.without.includes(name)) return;
    kept.without = [...kept.without, name];
    run(view?.share ?? 0);
  }

  // Pointer events and not HTML's own dragging, which leaves out touch.
  function draggable(stages, results) {
    stages.forEach((stage, place) => stage.addEventListener("pointerdown", (event) => {
      const group = event.target.closest?.("[data-box]");
      if (!group) return;
      const name = results[place].replay.boxes[Number(group.dataset.box)], zone = shown.querySelector(".drop-zone");
      const over = (at) => zone && document.elementFromPoint(at.clientX, at.clientY)?.closest(".drop-zone") === zone;
      const move = (at) => zone?.classList.toggle("over", Boolean(over(at)));
      const end = (at) => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", end);
        zone?.classList.remove("over");
        if (over(at)) out(name);
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", end);
      event.preventDefault();
    }));
  }

  async function run(from) {
    const mine = ++round, policies = [first.value, ...(second.value && second.value !== first.value ? [second.value] : [])];
    kept = { ...kept, world: world.value, scenario: scenario.value, first: first.value, second: second.value, seed: Number(seed.value) || 0 };
    const playing = view?.playing;
    go.disabled = true;
    const stopped = () => gone || mine !== round;
    try {
      const results = await Promise.all(policies.map((policy) => simulate({ world: kept.world, scenario: kept.scenario, policy, seed: kept.seed, load: kept.load, without: kept.without }, { told: (text) => { status.textContent = text; }, stopped })));
      if (stopped()) return;
      view?.stop();
      status.textContent = t("play.done", { scenario: kept.scenario, seed: kept.seed }) + (kept.load > 1 || kept.without.length ? ` ${t("play.varied")}` : "");
      view = runView(shown, results, { speed: () => kept.speed, from, boxes: () => outside(results) });
      draggable(view.stages, results.filter((result) => result.replay));
      if (playing || from === 0) view.start();
    } catch (error) {
      if (stopped()) return;
      status.replaceChildren(el("span", { class: "bad" }, error.message));
      if (kept.load > 1 || kept.without.length) { kept.load = 1; kept.without = []; }
    } finally { if (mine === round) go.disabled = false; }
  }

  root.append(card(t("play.title"), { class: "full" }, el("p", { class: "soft" }, t("play.about")), form, about, status), shown);
  status.textContent = t("run.catalogue");
  catalogue({ told: () => {}, stopped: () => gone }).then((told) => {
    if (!told || gone) return;
    worlds = told.worlds;
    world.replaceChildren(...worlds.map((one) => el("option", { value: one.name }, one.name)));
    if (worlds.some((one) => one.name === kept.world)) world.value = kept.world;
    fillScenarios();
    status.textContent = t("play.ready");
  }).catch((error) => { status.replaceChildren(el("span", { class: "bad" }, error.message)); });
  return () => { gone = true; view?.stop(); };
}
