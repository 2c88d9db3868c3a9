// Plays a replay: boxes with compartments with gauges, and what moved between them, frame by frame. The report has it
// inside its page, the dashboard loads it as a module. All text goes in as text, never as markup.
import { palette } from "./cividis.js";

const plain = (value, digits = 2) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const measured = (value, unit) => `${plain(value)} ${unit}`;

// What the player says; the dashboard has the same in another language, too.
export const ENGLISH = {
  figure: plain,
  duration(seconds) {
    for (const [unit, size] of [["days", 86400], ["hours", 3600], ["minutes", 60]]) {
      if (seconds >= 3 * size) return measured(seconds / size, unit);
    }
    return measured(seconds, "seconds");
  },
  play: "play",
  pause: "pause",
  nobody: "nobody",
  absent: "not there",
  more: (count) => ` and ${plain(count)} more`,
  after: (time) => ` after ${time}`,
  box: (place) => `A box is a ${place}`,
  parts: (count, part) => ` with its ${plain(count)} ${part}s`,
  leftOut: (count) => `; ${plain(count)} more are not drawn`,
  limit: (percent) => `the limit of ${percent} %`,
  scarcest: "Colour: the scarcest of its resources in use, 0 %",
  colour: (gauge) => `Colour: ${gauge}, 0 %`,
};

export const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// Every frame in full; the page has only what changes: how many cells stay, the level of the next one.
function framesOf(replay) {
  const bytes = bytesOf(replay.changes);
  let cells = new Uint8Array(replay.drawn * replay.compartments * replay.depth), begin = 0;
  return replay.lengths.map((length) => {
    cells = cells.slice();
    for (let byte = begin, at = -1; byte < begin + length; byte += 2) {
      at += bytes[byte] + 1;
      cells[at] = bytes[byte + 1];
    }
    begin += length;
    return cells;
  });
}

// The fewer boxes, the larger: named with bars, bars alone, or one coloured cell a compartment.
function layout(replay, room) {
  const { drawn, compartments, gauges } = replay;
  const bars = drawn <= 150, named = drawn <= 60, gap = bars ? 10 : 4, top = 24;
  const thick = drawn <= 16 ? 11 : named ? 7 : 5, label = named ? 20 : 0, pad = bars ? 6 : 0;
  const side = Math.max(6, Math.min(16, Math.floor(Math.sqrt(room * 300 / (drawn * compartments))) - 3));
  const least = !bars ? compartments * (side + 1) - 1 : drawn <= 16 ? 190 : named ? 104 : 46;
  const most = Math.max(1, Math.floor((room + gap) / (least + gap)));
  const columns = Math.ceil(drawn / Math.ceil(drawn / most));
  const width = Math.min(bars ? 290 : 1.6 * least, (room + gap) / columns - gap);
  const part = gauges.length * (thick + 2) + 4;
  const height = bars ? label + compartments * part + 2 * pad - 4 : side;
  const corner = (box) => [box % columns * (width + gap), top + Math.floor(box / columns) * (height + gap)];
  return { bars, named, thick, label, pad, part, width, height, corner, room,
    tall: corner(drawn - 1)[1] + height + 4 };
}

// Boxes that come and go stand in the rows of their group; a group has as many rows as it ever needs.
function groupedLayout(replay, frames, room) {
  const most = replay.groups.map(() => 0);
  for (const cells of frames) {
    const now = replay.groups.map(() => 0);
    for (let at = 0; at < cells.length; at += replay.depth) {
      if (cells[at] !== replay.absent) now[cells[at + replay.gauges.length]]++;
    }
    now.forEach((count, group) => { most[group] = Math.max(most[group], count); });
  }
  const named = most.reduce((one, other) => one + other, 0) <= 80, gap = 10, pad = 6, head = 24;
  const thick = named ? 7 : 5, label = named ? 18 : 0, least = named ? 104 : 46;
  const columns = Math.max(1, Math.floor((room + gap) / (least + gap)));
  const width = (room + gap) / columns - gap, part = replay.gauges.length * (thick + 2) + 4;
  const height = label + part + 2 * pad - 4, tops = [];
  let tall = 26;
  for (const count of most) {
    tops.push(tall + head);
    tall += head + Math.max(1, Math.ceil(count / columns)) * (height + gap) + 8;
  }
  const place = (group, rank) => [rank % columns * (width + gap), tops[group] + Math.floor(rank / columns) * (height + gap)];
  return { bars: true, named, thick, label, pad, part, width, height, room, tall, tops, place, corner: () => [0, 0] };
}

function setStage(svg, replay, frames) {
  const room = Math.max(340, Math.min(1150, svg.clientWidth || 1150));
  const at = replay.groups.length ? groupedLayout(replay, frames, room) : layout(replay, room);
  const add = (parent, name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  svg.replaceChildren();
  svg.classList.toggle("grouped", replay.groups.length > 0);
  svg.setAttribute("viewBox", `0 0 ${at.room} ${at.tall}`);
  const boxes = Array.from({ length: replay.drawn }, (_, box) => {
    const [x, y] = at.corner(box), group = add(svg, "g", { "data-box": box }), inner = at.width - 2 * at.pad;
    add(group, "rect", { class: "box", x: x - 1.5, y: y - 1.5, width: at.width + 3, height: at.height + 3, rx: at.bars ? 5 : 2 });
    if (at.named) {
      const most = Math.max(3, Math.floor(inner / 7)), name = replay.boxes[box];
      add(group, "text", { x: x + at.pad, y: y + at.pad + 10 }).textContent = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    }
    const gauges = [];
    for (let part = 0; part < replay.compartments; part++) {
      if (!at.bars) {
        const wide = (at.width + 1) / replay.compartments;
        gauges.push(add(group, "rect", { x: x + part * wide, y, width: wide - 1, height: at.height }));
        continue;
      }
      const first = y + at.pad + at.label + part * at.part;
      replay.gauges.forEach((_, gauge) => {
        const place = { x: x + at.pad, y: first + gauge * (at.thick + 2), height: at.thick, rx: 1.5 };
        add(group, "rect", { class: "track", width: inner, ...place });
        gauges.push(add(group, "rect", { class: `gauge g${gauge}`, width: 0, ...place }));
      });
      if (replay.limit < 1) {
        const line = x + at.pad + replay.limit * inner;
        add(group, "path", { class: "limit", d: `M${line} ${first - 2}V${first + at.part - 4}` });
      }
    }
    return { group, gauges, inner, x: x + at.width / 2, y: y + at.height / 2 };
  });
  const heads = replay.groups.map((_, group) => add(svg, "text", { class: "group", x: 0, y: at.tops[group] - 9 }));
  return { ...at, boxes, heads, add, moves: add(svg, "g", { class: "moves" }) };
}

// Every box to its group, with the look of its state; the heads of groups count them.
function showGroups(stage, replay, cells, words) {
  const drawn = replay.gauges.length, sizes = replay.groups.map(() => replay.states.map(() => 0));
  stage.boxes.forEach((box, place) => {
    const begin = place * replay.depth;
    if (cells[begin] === replay.absent) return;
    const group = cells[begin + drawn], state = cells[begin + drawn + 1];
    const [x, y] = stage.place(group, sizes[group].reduce((one, other) => one + other, 0));
    sizes[group][state]++;
    box.group.setAttribute("transform", `translate(${x} ${y})`);
    replay.states.forEach((_, other) => box.group.classList.toggle(`s${other}`, other === state));
    [box.x, box.y] = [x + stage.width / 2, y + stage.height / 2];
  });
  stage.heads.forEach((head, group) => {
    const told = sizes[group].map((size, state) => size && `${size} ${replay.states[state]}`).filter(Boolean).join(", ");
    head.textContent = `${replay.groups[group]}: ${told || words.nobody}`;
  });
}

function showLevels(stage, replay, cells, words) {
  if (replay.groups.length) showGroups(stage, replay, cells, words);
  const count = replay.depth, drawn = replay.groups.length ? replay.gauges.length : Infinity, whole = (level) => Math.min(level / replay.full, 1);
  stage.boxes.forEach((box, place) => {
    const begin = place * replay.compartments * count, levels = cells.subarray(begin, begin + replay.compartments * count);
    const absent = levels[0] === replay.absent;
    box.group.classList.toggle("absent", absent);
    box.group.classList.toggle("hot", !absent && levels.some((level, gauge) => gauge < drawn && level / replay.full > replay.limit));
    if (absent) return;
    box.gauges.forEach((shape, gauge) => {
      if (stage.bars) {
        shape.setAttribute("width", (whole(levels[gauge]) * box.inner).toFixed(1));
        return;
      }
      const of = levels.subarray(gauge * count, gauge * count + count);
      const level = replay.colour < 0 ? Math.max(...of) : of[replay.colour];
      shape.setAttribute("fill", `rgb(${palette[Math.round(whole(level) * 255)].join(" ")})`);
    });
  });
}

function showMoves(stage, replay, moves) {
  stage.moves.replaceChildren();
  for (const box of stage.boxes) box.group.classList.remove("left", "entered");
  for (const [item, from, to] of moves) {
    const source = stage.boxes[from], target = stage.boxes[to];
    if (source) source.group.classList.add("left");
    if (target) target.group.classList.add("entered");
    if (!target || (from >= 0 && !source)) continue;
    const start = source || { x: target.x, y: target.y - stage.height / 2 - 22 };
    const across = target.x - start.x, down = target.y - start.y, far = Math.hypot(across, down) || 1;
    const short = Math.max(0, 1 - (source ? Math.min(stage.width, stage.height) / 2 + 4 : stage.height / 2 + 3) / far);
    // Bent a little, so that an arrow does not hide behind the boxes of its own row.
    const bend = source ? Math.min(36, far / 5) : 0;
    const end = [start.x + across * short, start.y + down * short];
    const middle = [(start.x + end[0]) / 2 + bend * down / far, (start.y + end[1]) / 2 - bend * across / far];
    const way = Math.atan2(end[1] - middle[1], end[0] - middle[0]);
    const wing = (turn) => `${end[0] - 8 * Math.cos(way + turn)} ${end[1] - 8 * Math.sin(way + turn)}`;
    const tipped = `M${wing(.45)}L${end.join(" ")}L${wing(-.45)}`;
    const arrow = `M${start.x} ${start.y}Q${middle.join(" ")} ${end.join(" ")}${tipped}`;
    for (const style of ["halo", "arrow"]) stage.add(stage.moves, "path", { class: style, d: arrow });
    if (source && moves.length <= 4) {
      // Beside the middle of the arrow, on the side to which it bends.
      const name = replay.items[item], aside = [down / far * (6 + 3.6 * name.length), 4 - across / far * 9];
      const label = { x: (start.x + 2 * middle[0] + end[0]) / 4 + aside[0], y: (start.y + 2 * middle[1] + end[1]) / 4 + aside[1] };
      stage.add(stage.moves, "text", label).textContent = name;
    }
  }
}

function movesInWords(replay, frame, words) {
  const moved = replay.moves[frame].map(([item, from, to]) =>
    [replay.items[item], ...(from < 0 ? [] : [replay.boxes[from]]), "→", replay.boxes[to]].join(" "));
  const more = moved.length - 6;
  const told = moved.slice(0, 6).join(", ") + (more > 0 ? words.more(more) : "") || (frame ? replay.idle : "");
  const after = replay.seconds ? words.after(words.duration(replay.seconds[frame])) : "";
  return replay.moments[frame] + after + (told && `: ${told}`);
}

function keysOf(keys, stage, replay, words) {
  const parts = replay.compartments > 1 ? words.parts(replay.compartments, replay.part) : "";
  const rest = replay.leftOut ? words.leftOut(replay.leftOut) : "";
  keys.replaceChildren(`${words.box(replay.place)}${parts}${rest}. `);
  const key = (style, text) => {
    const mark = document.createElement("i");
    mark.className = style;
    keys.append(mark, text);
  };
  if (stage.bars) {
    replay.gauges.forEach((gauge, place) => key(`g${place}`, gauge));
    replay.states.forEach((state, place) => key(`state s${place}`, state));
    if (replay.limit < 1) key("limit", words.limit(words.figure(100 * replay.limit, 1)));
  } else {
    keys.append(replay.colour < 0 ? words.scarcest : words.colour(replay.gauges[replay.colour]));
    key("shades", "100 %");
  }
}

// tip: {show(event, title, lines), hide()}; told: hears the number of each frame that is shown.
export function player(root, replays, { words = ENGLISH, tip, told } = {}) {
  root.hidden = false;
  const [moment, svg, keys, slider, play] = [".moment", ".stage", ".keys", "input", ".play"].map((name) => root.querySelector(name));
  const buttons = [...root.querySelectorAll("[data-policy]")];
  let replay, frames, stage, frame = 0, timer = 0, period = 200;
  const draw = (which) => {
    showLevels(stage, replay, frames[which], words);
    showMoves(stage, replay, replay.moves[which]);
    moment.textContent = movesInWords(replay, which, words);
    svg.setAttribute("aria-label", moment.textContent);
    slider.setAttribute("aria-valuetext", moment.textContent);
  };
  const go = (which) => {
    frame = Math.max(0, Math.min(frames.length - 1, which));
    slider.value = frame;
    draw(frame);
    told?.(frame, frames.length);
  };
  const pause = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = words.play;
    moment.setAttribute("aria-live", "polite");
  };
  const start = () => {
    if (frame === frames.length - 1) go(0);
    play.textContent = words.pause;
    moment.setAttribute("aria-live", "off");
    timer = setInterval(() => { if (frame < frames.length - 1) go(frame + 1); else pause(); }, period);
  };
  const choose = (button) => {
    const ended = !frames || frame === frames.length - 1;
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    replay = replays[button.dataset.policy];
    frames = framesOf(replay);
    stage = setStage(svg, replay, frames);
    slider.max = frames.length - 1;
    keysOf(keys, stage, replay, words);
    go(ended ? frames.length - 1 : frame);
  };
  const step = (which) => { pause(); go(which); };
  for (const button of buttons) button.addEventListener("click", () => choose(button));
  play.addEventListener("click", () => { if (timer) pause(); else start(); });
  root.querySelector(".back").addEventListener("click", () => step(frame - 1));
  root.querySelector(".on").addEventListener("click", () => step(frame + 1));
  slider.addEventListener("input", () => step(Number(slider.value)));
  root.querySelector("figure").addEventListener("keydown", (event) => {
    const wanted = { ArrowLeft: frame - 1, ArrowRight: frame + 1, Home: 0, End: frames.length - 1 }[event.key];
    if (wanted === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step(wanted);
  });
  svg.addEventListener("pointerleave", () => { tip.hide(); });
  svg.addEventListener("pointermove", (event) => {
    const group = event.target.closest("[data-box]");
    if (!group) { tip.hide(); return; }
    const box = Number(group.dataset.box), count = replay.depth;
    const level = (part, gauge) => `${words.figure(100 * frames[frame][(box * replay.compartments + part) * count + gauge] / replay.full, 0)} %`;
    const parts = Array.from({ length: replay.compartments }, (_, part) => part);
    const shown = frames[frame][box * replay.compartments * count] === replay.absent ? [] : replay.gauges;
    const state = replay.groups.length ? `, ${replay.states[frames[frame][box * count + count - 1]]}` : "";
    tip.show(event, replay.boxes[box] + (shown.length ? state : `, ${words.absent}`), shown.map((gauge, place) => [null, gauge, parts.map((part) => level(part, place)).join(" · ")]));
  });
  // On paper a replay is its last frame.
  window.addEventListener("beforeprint", () => { pause(); draw(frames.length - 1); });
  window.addEventListener("afterprint", () => draw(frame));
  choose(buttons[0]);
  return {
    go, pause, start, step,
    set period(milliseconds) {
      period = milliseconds;
      if (timer) { pause(); start(); }
    },
    get playing() { return timer !== 0; },
    get frame() { return frame; },
    get length() { return frames.length; },
    levels: (which) => frames[which],
    redraw() { stage = setStage(svg, replay, frames); draw(frame); },
  };
}
