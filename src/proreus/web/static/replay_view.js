// The report's player with its frame of controls, in the language of the page; several of them can go together.
import { el, svg } from "./dom.js";
import { duration, figure, t } from "./i18n.js";
import { player } from "./player.js";
import { saveButtons } from "./saving.js";
import { hideTip, showTip } from "./tip.js";

const tip = { show: (event, title, lines) => showTip(event, title, lines.map(([, name, value]) => [name, value])), hide: hideTip };

const words = () => ({
  figure, duration,
  play: t("player.play"), pause: t("player.pause"), nobody: t("player.nobody"), absent: t("player.absent"),
  more: (count) => t("player.more", { count: figure(count) }),
  after: (time) => t("player.after", { time }),
  box: (place) => t("player.box", { place }),
  parts: (count, part) => t("player.parts", { count: figure(count), part }),
  leftOut: (count) => t("player.leftOut", { count: figure(count) }),
  limit: (percent) => t("player.limit", { percent }),
  scarcest: t("player.scarcest"),
  colour: (gauge) => t("player.colour", { gauge }),
});

// replays: name -> data of a replay.
export function replayView(replays, { title = "", told } = {}) {
  const names = Object.keys(replays), lone = names.length === 1;
  const drawn = svg("svg", { class: "stage", role: "img" });
  const buttons = el("div", { class: "legend", role: "group", "aria-label": t("player.choose"), hidden: lone }, names.map((name) => el("button", { type: "button", "aria-pressed": "false", data: { policy: name } }, name)));
  let playing;
  const rows = () => {
    const replay = replays[names.find((name) => buttons.querySelector(`[aria-pressed="true"]`)?.dataset.policy === name) ?? names[0]];
    const made = [["frame", "moment", "box", "compartment", ...replay.gauges]];
    for (let frame = 0; frame < playing.length; frame++) {
      const cells = playing.levels(frame);
      for (let box = 0; box < replay.drawn; box++) {
        for (let part = 0; part < replay.compartments; part++) {
          const begin = (box * replay.compartments + part) * replay.depth;
          if (cells[begin] !== replay.absent) made.push([frame, replay.moments[frame], replay.boxes[box], part, ...replay.gauges.map((_, gauge) => cells[begin + gauge] / replay.full)]);
        }
      }
    }
    return made;
  };
  const root = el("div", { class: "replay" }, buttons, el("figure", { tabindex: "0", "aria-label": title || t("player.title") },
    el("figcaption", null, el("span", null, title), saveButtons({ name: title || "replay", picture: () => drawn, rows })),
    el("p", { class: "moment", "aria-live": "polite" }), el("div", { class: "tall-box", tabindex: "0", role: "region", "aria-label": title || t("player.title") }, drawn), el("p", { class: "soft small keys" }),
    el("div", { class: "buttons controls" }, el("button", { type: "button", class: "back" }, t("player.back")), el("button", { type: "button", class: "play" }, t("player.play")),
      el("button", { type: "button", class: "on" }, t("player.on")), el("input", { type: "range", min: "0", value: "0", "aria-label": t("player.frame") }))));
  // Drawn to the width it has, so only once it stands in the page.
  return { root, drawn, start() { playing = player(root, replays, { words: words(), tip, told }); return playing; } };
}

// Moves players to the same moment of their runs: by the clock where all have one, else by the share that is done.
export function together(players, replays) {
  const clocked = replays.every((replay) => replay.seconds);
  const whole = clocked ? Math.max(...replays.map((replay) => replay.seconds.at(-1))) : 1;
  return (share) => players.forEach((one, place) => {
    if (!clocked) { one.go(Math.round(share * (one.length - 1))); return; }
    const seconds = replays[place].seconds, wanted = share * whole;
    let frame = seconds.findIndex((second) => second > wanted);
    if (frame < 0) frame = seconds.length;
    one.go(Math.max(0, frame - 1));
  });
}
