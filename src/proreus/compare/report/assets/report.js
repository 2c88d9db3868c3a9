// Makes the report's pictures answer: tooltips, a legend that hides policies, heat maps, replays. The page is
// complete without it except for heat maps and replays. All text goes in as text, never as markup. `palette`, `player`,
// `bytesOf` and `ENGLISH` stand before it in the page: see cividis.js and player.js.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const tip = document.getElementById("tip");
  const colours = 7;

  const { figure, duration } = ENGLISH;
  const withUnit = (value, unit) => `${figure(value)} ${unit}`;

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

  for (const [id, chart] of Object.entries(data.charts)) followCurve(document.getElementById(id), chart);
  for (const [id, heat] of Object.entries(data.heats)) drawHeat(document.getElementById(id), heat);
  for (const [id, replays] of Object.entries(data.replays)) player(document.getElementById(id), replays, { tip: { show: showTip, hide: () => { tip.hidden = true; } } });
  document.querySelectorAll(".wide").forEach(hint);
  document.querySelectorAll(".curves").forEach(legend);
  document.querySelectorAll(".heats").forEach(chooser);
})();
