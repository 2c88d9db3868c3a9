// How the page talks to where it came from: with a token in a header, never in a cookie.
const SILENT_MS = 30000;
const KEPT = "token";

export let token = takeToken();
export let about = {};

function takeToken() {
  const given = new URLSearchParams(location.hash.replace(/^#\/?/, "")).get("token");
  try {
    if (given) sessionStorage.setItem(KEPT, given);
    if (given) history.replaceState(null, "", location.pathname);
    return given || sessionStorage.getItem(KEPT) || "";
  } catch { return given || ""; }
}

export function setToken(given) {
  token = given;
  try { sessionStorage.setItem(KEPT, given); } catch { /* this tab keeps nothing: it lives as long as the page */ }
}

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

const headers = (more) => ({ ...(token ? { authorization: `Bearer ${token}` } : {}), ...more });

async function refusal(answer) {
  let message = `${answer.status}`;
  try {
    const told = await answer.json();
    message = told.message ?? told.error?.message ?? told.error ?? told.detail ?? message;
  } catch { /* no words came with it */ }
  return new Refused(answer.status, typeof message === "string" ? message : JSON.stringify(message));
}

export async function ask(path, { method = "GET", body, as = "json" } = {}) {
  const sent = body === undefined ? {} : { "content-type": "application/json" };
  const answer = await fetch(path, {
    method, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
    headers: headers({ accept: as === "json" ? "application/json" : "*/*", ...sent }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw await refusal(answer);
  return as === "json" ? answer.json() : answer.text();
}

export async function learnAbout() {
  about = await ask("dashboard/about");
  return about;
}

// Server-sent events by fetch, which can send a token and tell what was answered. Resolves when the stream ends.
export async function follow(path, hear, { opened, signal } = {}) {
  const ending = new AbortController();
  const stop = () => ending.abort();
  signal?.addEventListener("abort", stop);
  let silence;
  const heard = () => { clearTimeout(silence); silence = setTimeout(stop, SILENT_MS); };
  heard();
  try {
    const answer = await fetch(path, { signal: ending.signal, cache: "no-store", credentials: "omit", headers: headers({ accept: "text/event-stream" }) });
    if (!answer.ok) throw await refusal(answer);
    opened?.();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      held += value;
      let end;
      while ((end = held.indexOf("\n\n")) >= 0) {
        message(held.slice(0, end), hear);
        held = held.slice(end + 2);
      }
    }
  } finally {
    clearTimeout(silence);
    signal?.removeEventListener("abort", stop);
  }
}

function message(text, hear) {
  let name = "message", data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (data) hear(name, JSON.parse(data));
}
