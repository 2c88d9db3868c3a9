// The two languages. A key that one of them lacks is a fault that a test finds.
import en from "./words/en.js";
import zh from "./words/zh.js";

const WORDS = { en, zh };
const KEPT = "proreus-language";
export const LANGUAGES = [["en", "English"], ["zh", "中文"]];

function first() {
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept in WORDS) return kept;
  } catch { /* a browser that keeps nothing */ }
  return navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export let language = first();

export function setLanguage(chosen) {
  language = chosen in WORDS ? chosen : "en";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  try { localStorage.setItem(KEPT, language); } catch { /* as above */ }
}

export function t(key, values) {
  const text = WORDS[language][key] ?? WORDS.en[key] ?? key;
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole)) : text;
}

const locale = () => (language === "zh" ? "zh-CN" : "en-US");
export const figure = (value, digits = 2) => Number(value).toLocaleString(locale(), { maximumFractionDigits: digits });
export const percent = (share) => `${figure(share * 100, share && share < 0.1 ? 1 : 0)} %`;

export function amount(resource, value) {
  if (!/memory|storage/.test(resource)) return figure(value, 1);
  let unit = 0;
  while (value >= 1024 && unit < 5) { value /= 1024; unit++; }
  return `${figure(value, value < 10 && unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const of = (value, unit) => t(`unit.${unit}`, { n: figure(value, 0) });
  if (seconds < 120) return of(Math.max(0, seconds), "s");
  if (seconds < 7200) return of(seconds / 60, "min");
  return seconds < 172800 ? of(seconds / 3600, "h") : of(seconds / 86400, "d");
}

export const ago = (stamp) => duration((Date.now() - Date.parse(stamp)) / 1000);
export const moment = (stamp) => {
  const at = new Date(stamp);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString(locale());
};
