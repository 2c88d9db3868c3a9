"use strict";
// Makes the report's pictures answer: tooltips, a legend that hides policies, heat maps, replays. The page is
// complete without it except for heat maps and replays. All text goes in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const tip = document.getElementById("tip");
  const colours = 7;

  const figure = (value, digits = 2) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
  const withUnit = (value, unit) => `${figure(value)} ${unit}`;

  function duration(seconds) {
    for (const [unit, size] of [["days", 86400], ["hours", 3600], ["minutes", 60]]) {
      if (seconds >= 3 * size) return withUnit(seconds / size, unit);
    }
    return withUnit(seconds, "seconds");
  }

  function showTip(event, title, lines) {
    const head = document.createElement("b");
    head.textContent = title;
    tip.replaceChildren(head, ...lines.map(([place, name, value]) => {
      const line = document.createElement("span");
      const left = document.createElement("span");
      if (place !== null) {
        const dot = document.createElement("i");
        dot.className = `p${place % colours}`;
        left.append(dot);
      }
      left.append(name);
      line.append(left, value);
      return line;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16 + box.width > window.innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX - 16 - box.width : event.clientX + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, window.innerHeight - box.height - 4))}px`;
  }

  function nearest(sorted, wanted) {
    let low = 0, high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= wanted) low = middle; else high = middle;
    }
    return wanted - sorted[low] <= sorted[high] - wanted ? low : high;
  }

  function followCurve(svg, chart) {
    const cursor = svg.querySelector(".cursor");
    const first = chart.x[0], last = chart.x[chart.x.length - 1];
    const leave = () => { tip.hidden = true; cursor.style.visibility = "hidden"; };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const across = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (across < chart.left - 8 || across > chart.right + 8) return leave();
      const place = nearest(chart.x, first + (across - chart.left) / (chart.right - chart.left) * (last - first));
      const x = chart.left + (last > first ? (chart.x[place] - first) / (last - first) : .5) * (chart.right - chart.left);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.style.visibility = "visible";
      const lines = chart.series
        .map((values, policy) => [policy, values && values[place]])
        .filter(([policy, value]) => value !== null && value !== undefined
          && !svg.querySelector(`[data-policy="${policy}"]`).classList.contains("off"))
        .sort((one, other) => other[1] - one[1])
        .map(([policy, value]) => [policy, data.policies[policy], withUnit(value, chart.unit)]);
      showTip(event, chart.axis === "%" ? `${figure(chart.x[place], 1)} % arrived` : withUnit(chart.x[place], chart.axis), lines);
    });
  }

  // Says that a table goes on to the right, for as long as it does.
  function hint(scroll) {
    const note = scroll.nextElementSibling;
    const look = () => { note.hidden = scroll.scrollLeft + scroll.clientWidth >= scroll.scrollWidth - 4; };
    scroll.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    look();
  }

  function legend(group) {
    for (const button of group.querySelectorAll("button")) {
      const lines = group.querySelectorAll(`.charts [data-policy="${button.dataset.policy}"]`);
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        for (const line of lines) line.classList.toggle("off", !shown);
        fade(shown);
      });
      // What is hidden cannot be brought forward: hovering over it leaves the others as they are.
      const fade = (on) => {
        for (const line of group.querySelectorAll(".charts [data-policy]")) {
          line.classList.toggle("faded", on && line.dataset.policy !== button.dataset.policy);
        }
      };
      button.addEventListener("pointerenter", () => fade(button.getAttribute("aria-pressed") === "true"));
      button.addEventListener("pointerleave", () => fade(false));
    }
  }

  // cividis, which keeps its order for colour-blind readers and in grey.
  const stops = ["00224e", "1a386f", "434e6c", "61656f", "7d7c78", "9b9476", "bcae6c", "dec958", "fee838"]
    .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const palette = Array.from({ length: 256 }, (_, level) => {
    const at = level / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, part) => Math.round(from + (at - low) * (stops[low + 1][part] - from)));
  });

  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  function drawHeat(canvas, heat) {
    const cells = bytesOf(heat.cells);
    const width = 320, span = heat.times[heat.moments - 1];
    // A moment holds until the next one: the run is sampled by events, the picture is drawn by time.
    const columns = new Uint16Array(width);
    for (let x = 0, moment = 0; x < width; x++) {
      while (moment + 1 < heat.moments && heat.times[moment + 1] <= x / (width - 1) * span) moment++;
      columns[x] = moment;
    }
    canvas.width = width;
    canvas.height = heat.rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, heat.rows);
    for (let row = 0, at = 0; row < heat.rows; row++) {
      for (let x = 0; x < width; x++, at += 4) {
        const colour = palette[cells[row * heat.moments + columns[x]]];
        image.data[at] = colour[0];
        image.data[at + 1] = colour[1];
        image.data[at + 2] = colour[2];
        image.data[at + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    // Few nodes are shown as crisp rows; many are smoothed, so that none is skipped.
    canvas.style.imageRendering = heat.rows <= 190 ? "pixelated" : "auto";
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const within = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
      const row = within((event.clientY - box.top) / box.height, heat.rows);
      const x = within((event.clientX - box.left) / box.width, width);
      const first = row * heat.nodesPerRow + 1, last = Math.min(heat.nodes, first + heat.nodesPerRow - 1);
      const which = first === last ? `${data.place} ${figure(first)}` : `${data.place}s ${figure(first)} to ${figure(last)}`;
      const level = cells[row * heat.moments + columns[x]];
      showTip(event, `${which} of ${figure(heat.nodes)}, fullest first`, [
        [null, "in use", `${Math.round(level / 2.55)} %`],
        [null, "after", duration(heat.times[columns[x]])],
      ]);
    });
  }

  function chooser(group) {
    const maps = group.querySelector(".maps");
    const buttons = [...group.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        const chosen = button.dataset.policy;
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        maps.classList.toggle("single", chosen !== "all");
        for (const map of maps.querySelectorAll("figure")) {
          map.classList.toggle("off", chosen !== "all" && map.dataset.policy !== chosen);
        }
      });
    }
  }

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
  function showGroups(stage, replay, cells) {
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
      head.textContent = `${replay.groups[group]}: ${told || "nobody"}`;
    });
  }

  function showLevels(stage, replay, cells) {
    if (replay.groups.length) showGroups(stage, replay, cells);
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

  function movesInWords(replay, frame) {
    const words = replay.moves[frame].map(([item, from, to]) =>
      [replay.items[item], ...(from < 0 ? [] : [replay.boxes[from]]), "→", replay.boxes[to]].join(" "));
    const more = words.length - 6;
    const told = words.slice(0, 6).join(", ") + (more > 0 ? ` and ${figure(more)} more` : "") || (frame ? replay.idle : "");
    const after = replay.seconds ? ` after ${duration(replay.seconds[frame])}` : "";
    return replay.moments[frame] + after + (told && `: ${told}`);
  }

  function keysOf(keys, stage, replay) {
    const parts = replay.compartments > 1 ? ` with its ${figure(replay.compartments)} ${replay.part}s` : "";
    const rest = replay.leftOut ? `; ${figure(replay.leftOut)} more are not drawn` : "";
    keys.replaceChildren(`A box is a ${replay.place}${parts}${rest}. `);
    const key = (style, text) => {
      const mark = document.createElement("i");
      mark.className = style;
      keys.append(mark, text);
    };
    if (stage.bars) {
      replay.gauges.forEach((gauge, place) => key(`g${place}`, gauge));
      replay.states.forEach((state, place) => key(`state s${place}`, state));
      if (replay.limit < 1) key("limit", `the limit of ${figure(100 * replay.limit, 1)} %`);
    } else {
      keys.append(replay.colour < 0 ? "Colour: the scarcest of its resources in use, 0 %" : `Colour: ${replay.gauges[replay.colour]}, 0 %`);
      key("shades", "100 %");
    }
  }

  function player(root, replays) {
    root.hidden = false;
    const [moment, svg, keys, slider, play] = [".moment", ".stage", ".keys", "input", ".play"].map((name) => root.querySelector(name));
    const buttons = [...root.querySelectorAll("[data-policy]")];
    let replay, frames, stage, frame = 0, timer = 0;
    const draw = (which) => {
      showLevels(stage, replay, frames[which]);
      showMoves(stage, replay, replay.moves[which]);
      moment.textContent = movesInWords(replay, which);
      svg.setAttribute("aria-label", moment.textContent);
      slider.setAttribute("aria-valuetext", moment.textContent);
    };
    const go = (which) => {
      frame = Math.max(0, Math.min(frames.length - 1, which));
      slider.value = frame;
      draw(frame);
    };
    const pause = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = "play";
      moment.setAttribute("aria-live", "polite");
    };
    const start = () => {
      if (frame === frames.length - 1) go(0);
      play.textContent = "pause";
      moment.setAttribute("aria-live", "off");
      timer = setInterval(() => { if (frame < frames.length - 1) go(frame + 1); else pause(); }, 200);
    };
    const choose = (button) => {
      const ended = !frames || frame === frames.length - 1;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      replay = replays[button.dataset.policy];
      frames = framesOf(replay);
      stage = setStage(svg, replay, frames);
      slider.max = frames.length - 1;
      keysOf(keys, stage, replay);
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
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("pointermove", (event) => {
      const group = event.target.closest("[data-box]");
      if (!group) { tip.hidden = true; return; }
      const box = Number(group.dataset.box), count = replay.depth;
      const level = (part, gauge) => `${figure(100 * frames[frame][(box * replay.compartments + part) * count + gauge] / replay.full, 0)} %`;
      const parts = Array.from({ length: replay.compartments }, (_, part) => part);
      const shown = frames[frame][box * replay.compartments * count] === replay.absent ? [] : replay.gauges;
      const state = replay.groups.length ? `, ${replay.states[frames[frame][box * count + count - 1]]}` : "";
      showTip(event, replay.boxes[box] + (shown.length ? state : ", not there"), shown.map((gauge, place) => [null, gauge, parts.map((part) => level(part, place)).join(" · ")]));
    });
    // On paper a replay is its last frame.
    window.addEventListener("beforeprint", () => { pause(); draw(frames.length - 1); });
    window.addEventListener("afterprint", () => draw(frame));
    choose(buttons[0]);
  }

  for (const [id, chart] of Object.entries(data.charts)) followCurve(document.getElementById(id), chart);
  for (const [id, heat] of Object.entries(data.heats)) drawHeat(document.getElementById(id), heat);
  for (const [id, replays] of Object.entries(data.replays)) player(document.getElementById(id), replays);
  document.querySelectorAll(".wide").forEach(hint);
  document.querySelectorAll(".curves").forEach(legend);
  document.querySelectorAll(".heats").forEach(chooser);
})();
