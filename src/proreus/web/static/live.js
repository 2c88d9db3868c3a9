// The cluster as this page knows it, kept up to date by server-sent events: whoever looks is told what changed, once a frame.
import { follow } from "./server.js";

export const KEPT = { decisions: 200, events: 200 };
export const POD = { namespace: 0, name: 1, phase: 2, node: 3, created: 4, owner: 5, cpu: 6, memory: 7, gpu: 8 };

export const live = { state: "connecting", why: "", status: null, nodes: new Map(), comings: 0, pods: new Map(), decisions: [], events: [], loaded: false };

const hearers = new Set();
let news = {}, frame = 0;

export function subscribe(hear) {
  hearers.add(hear);
  return () => hearers.delete(hear);
}

// changed pods: key -> the row before, or undefined.
function note(what, detail) {
  if (detail) news[what] = detail; else news[what] ??= true;
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    const told = news;
    news = {};
    performance.mark("live-begin");
    for (const hear of hearers) hear(told);
    performance.measure("live-update", "live-begin");
  });
}

export const keyOf = (row) => `${row[0]}/${row[1]}`;

function takePods(told) {
  let changed = news.pods instanceof Map ? news.pods : new Map();
  if (told.all) { live.pods.clear(); changed = "all"; }
  if (news.pods === "all") changed = "all";
  const seen = (key) => { if (changed !== "all" && !changed.has(key)) changed.set(key, live.pods.get(key)); };
  for (const gone of told.gone) { const key = keyOf(gone); seen(key); live.pods.delete(key); }
  for (const row of told.rows) { const key = keyOf(row); seen(key); live.pods.set(key, row); }
  if (changed !== "all" && changed.size > 2000) changed = "all";
  note("pods", changed);
}

const TAKE = {
  status(told) { live.status = told; live.loaded = true; note("status"); },
  nodes(told) {
    const before = live.nodes.size;
    if (told.all) live.nodes.clear();
    for (const name of told.gone ?? []) live.nodes.delete(name);
    for (const node of told.nodes) live.nodes.set(node.name, node);
    // Thousands of names are put in order only when some came or went.
    if (told.all || told.gone?.length || live.nodes.size !== before) live.comings++;
    note("nodes");
  },
  pods: takePods,
  decisions(told) {
    live.decisions = live.decisions.concat(told.decisions).slice(-KEPT.decisions);
    note("decisions");
  },
  events(told) {
    live.events = live.events.concat(told.events).slice(-KEPT.events);
    note("events");
  },
};

function become(state, why = "") {
  live.state = state;
  live.why = why;
  note("link");
}

// What there is, for whoever measures the page from outside.
Object.defineProperty(window, "dashboard", { value: { get nodes() { return live.nodes.size; }, get pods() { return live.pods.size; } } });

let running = false;
export async function start() {
  if (running) return;
  running = true;
  for (let pause = 500; ;) {
    const began = Date.now();
    try {
      await follow("v1/events?pods=true", (name, told) => { performance.mark("take-begin"); TAKE[name]?.(told); performance.measure("take", "take-begin"); },
        { opened: () => { live.decisions = []; live.events = []; become("live"); } });
      become("lost");
    } catch (error) {
      if (error.status === 401 || error.status === 403) { running = false; become("token", error.message); return; }
      become("lost", error.name === "AbortError" ? "" : error.message);
    }
    pause = Date.now() - began > 5000 ? 500 : Math.min(pause * 2, 10000);
    await new Promise((wait) => setTimeout(wait, pause));
  }
}
