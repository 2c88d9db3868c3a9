// The frame around every page: where one is, the language, light and dark, the token; and which page is shown.
import { el, way } from "./dom.js";
import { ago, LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { live, start, subscribe } from "./live.js";
import { about, learnAbout, setToken, token } from "./server.js";
import { cluster } from "./pages/cluster.js";
import { comparisons } from "./pages/comparisons.js";
import { decisions } from "./pages/decisions.js";
import { learning } from "./pages/learning.js";
import { node } from "./pages/node.js";
import { playground } from "./pages/playground.js";
import { pod } from "./pages/pod.js";
import { workload } from "./pages/workload.js";

const PAGES = { cluster, decisions, learning, comparisons, playground, node, pod, workload };
const TABS = ["cluster", "decisions", "learning", "comparisons", "playground"];
const UNDER = { node: "cluster", pod: "cluster", workload: "cluster" };
const THEME = "proreus-theme";
const main = document.getElementById("main"), nav = document.getElementById("nav"), tools = document.getElementById("tools");
let leave = () => {}, failed = null;

function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const home = about.cluster ? "cluster" : about.service || about.models?.length || about.runs ? "learning" : "playground";
  return parts[0] in PAGES ? parts : [home];
}

function theme(chosen) {
  const now = chosen ?? (() => { try { return localStorage.getItem(THEME) ?? "auto"; } catch { return "auto"; } })();
  document.documentElement.dataset.theme = now;
  if (chosen) try { localStorage.setItem(THEME, chosen); } catch { /* a browser that keeps nothing */ }
  return now;
}

function frame() {
  const [page] = place();
  const here = UNDER[page] ?? page;
  nav.setAttribute("aria-label", t("nav.label"));
  nav.replaceChildren(...TABS.map((tab) => el("a", { href: way(tab), class: tab === here ? "here" : "", "aria-current": tab === here ? "page" : null }, t(`nav.${tab}`))));
  const languages = el("select", { "aria-label": t("tools.language"), on: { change: (event) => { setLanguage(event.target.value); show(); } } },
    LANGUAGES.map(([code, name]) => el("option", { value: code, selected: code === language }, name)));
  const themes = el("select", { "aria-label": t("tools.theme"), on: { change: (event) => { theme(event.target.value); show(); } } },
    ["auto", "light", "dark"].map((one) => el("option", { value: one, selected: one === theme() }, t(`theme.${one}`))));
  const lock = el("button", { type: "button", on: { click: () => askForToken(t("token.change")) } }, token ? t("token.set") : t("token.none"));
  tools.replaceChildren(el("span", { id: "link", role: "status" }), languages, themes, lock);
  showLink();
}

function showLink() {
  const dot = document.getElementById("link");
  if (!dot) return;
  if (!about.cluster) { dot.className = ""; dot.textContent = about.version ? `${t("about.version", { version: about.version })}` : ""; return; }
  dot.className = live.state;
  dot.textContent = t(`link.${live.state}`) + (live.state === "lost" && live.why ? `: ${live.why}` : "");
}

// Of a server that answers 401 or 403: a token that was given is not the right one.
const refused = () => (token ? `${t("token.refused")} ${t("token.needed")}` : t("token.needed"));

export function askForToken(why) {
  const field = el("input", { type: "password", name: "token", autocomplete: "off", "aria-label": t("token.label"), size: "44" });
  const form = el("form", { class: "card ask", on: { submit: (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    failed = null;
    boot();
  } } }, el("h2", null, t("token.title")), el("p", { role: "alert" }, why), el("p", null, field, " ", el("button", null, t("token.use"))), el("p", { class: "soft" }, t("token.stays")));
  leave();
  leave = () => {};
  main.replaceChildren(form);
  field.focus();
}

export function show() {
  setLanguage(language);
  leave();
  leave = () => {};
  frame();
  const [page, ...rest] = place();
  document.title = `Proreus · ${t(`nav.${UNDER[page] ?? page}`)}`;
  if (failed) { askForToken(failed); return; }
  const needs = ["cluster", "decisions", "node", "pod", "workload"].includes(page);
  if (needs && !about.cluster && !(page === "decisions" && about.service)) {
    main.replaceChildren(el("section", { class: "card" }, el("h2", null, t(`nav.${UNDER[page] ?? page}`)), el("p", null, t("none.cluster")), el("pre", null, "proreus up --nodes 20")));
    return;
  }
  const root = el("div", { class: `page ${page}` });
  main.replaceChildren(root);
  leave = PAGES[page](root, rest, { show, askForToken }) ?? (() => {});
}

async function boot() {
  theme();
  setLanguage(language);
  try {
    await learnAbout();
  } catch (error) {
    failed = error.status === 401 || error.status === 403 ? refused() : `${t("link.lost")}: ${error.message}`;
  }
  if (about.cluster) start();
  show();
}

addEventListener("hashchange", () => {
  const given = new URLSearchParams(location.hash.replace(/^#\/?/, "")).get("token");
  if (given) { setToken(given); history.replaceState(null, "", location.pathname); failed = null; boot(); return; }
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
// 1 to 5 and ? for whoever does not use a pointer; not while something is written.
addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const tab = TABS[Number(event.key) - 1];
  if (tab) location.hash = way(tab).slice(1);
  if (event.key === "/") { const field = main.querySelector("input[type=search]"); if (field) { event.preventDefault(); field.focus(); } }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
subscribe((news) => {
  if (!news.link) return;
  showLink();
  if (live.state === "token") askForToken(refused());
});
setInterval(() => { for (const cell of document.querySelectorAll("[data-since]")) cell.textContent = ago(cell.dataset.since); }, 1000);
boot();
