// Means with their 95 % intervals, a line a policy, the best on top; single seeds are faint dots.
import { el, svg } from "./dom.js";
import { figure, t } from "./i18n.js";
import { ticks } from "./line_chart.js";
import { saveButtons } from "./saving.js";

const WIDE = 640, LEFT = 150, RIGHT = 90, ROW = 26;

// rows: [{policy, mean, low, high, n}]; seeds: policy -> values; places: policy -> number of its colour.
export function intervalChart({ title, unit, better, rows, seeds, places }) {
  const ranked = [...rows].sort((a, b) => (better === "higher" ? b.mean - a.mean : a.mean - b.mean));
  const all = ranked.flatMap((row) => [row.mean, row.low ?? row.mean, row.high ?? row.mean, ...(seeds[row.policy] ?? [])]).filter(Number.isFinite);
  let low = Math.min(...all), high = Math.max(...all);
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const px = (value) => LEFT + (value - low) / (high - low) * (WIDE - LEFT - RIGHT), tall = ROW * ranked.length + 34;
  const drawn = svg("svg", { class: "intervals", viewBox: `0 0 ${WIDE} ${tall}`, role: "img", "aria-label": `${title}: ${ranked.map((row) => `${row.policy} ${figure(row.mean)} ${unit}`).join(", ")}` },
    ticks(low, high, 5).map((value) => [svg("path", { class: "grid", d: `M${px(value)} 4V${ROW * ranked.length + 6}` }), svg("text", { class: "tick", x: px(value), y: tall - 12, "text-anchor": "middle" }, figure(value, 3))]),
    ranked.map((row, place) => {
      const y = ROW * place + 18, colour = `p${(places[row.policy] ?? 0) % 7}`;
      return svg("g", { class: colour }, svg("text", { class: "name", x: LEFT - 12, y: y + 4, "text-anchor": "end" }, row.policy.length > 20 ? `${row.policy.slice(0, 19)}…` : row.policy),
        (seeds[row.policy] ?? []).filter(Number.isFinite).map((value) => svg("circle", { class: "seed", cx: px(value), cy: y, r: 3 })),
        row.low !== null && row.high !== null && svg("path", { class: "whisker", d: `M${px(row.low)} ${y}H${px(row.high)}M${px(row.low)} ${y - 5}v10M${px(row.high)} ${y - 5}v10` }),
        svg("circle", { class: "mean", cx: px(row.mean), cy: y, r: 5 }), svg("text", { class: "value", x: WIDE - RIGHT + 10, y: y + 4 }, figure(row.mean, 3)));
    }));
  const caption = el("figcaption", null, el("span", null, `${title}${unit ? ` (${unit})` : ""}`, el("small", { class: "soft" }, ` ${t(`better.${better}`)}`)), saveButtons({ name: title, picture: () => drawn,
    rows: () => [["policy", "mean", "low", "high", "n"], ...ranked.map((row) => [row.policy, row.mean, row.low ?? "", row.high ?? "", row.n])] }));
  return el("figure", null, caption, drawn);
}
