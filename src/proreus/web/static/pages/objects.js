// What the pages of single objects share.
import { el } from "../dom.js";
import { t } from "../i18n.js";

export const failure = (error) => el("p", { class: "bad" }, error.status === 404 ? t("object.gone") : `${t("object.failed")}: ${error.message}`);

export function pairs(entries) {
  if (!entries.length) return el("p", { class: "none" }, t("object.none"));
  return el("dl", { class: "pairs" }, entries.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}
