// Asks the server to play something, and waits until it has.
import { t } from "./i18n.js";
import { ask } from "./server.js";

const PAUSE_MS = 400;
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function waitFor(first, path, { told, stopped }) {
  let run = first;
  while (run.state === "waiting" || run.state === "running") {
    if (stopped?.()) return null;
    told?.(t(`run.${run.state}`));
    await wait(PAUSE_MS);
    run = await ask(path);
  }
  if (run.state === "failed") throw new Error(run.why);
  return run.result;
}

export async function simulate(question, hearing = {}) {
  const started = await ask("dashboard/playground", { method: "POST", body: question });
  return waitFor({ ...started, state: started.state === "done" ? "running" : started.state }, `dashboard/playground/${started.id}`, hearing);
}

let known = null;
export async function catalogue(hearing = {}) {
  known ??= await waitFor(await ask("dashboard/playground"), "dashboard/playground", hearing);
  return known;
}
