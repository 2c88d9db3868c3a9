// Nodes as cells on a canvas: a few with their names, thousands as a field of colours. Pointer and keyboard walk over it.
import { palette } from "./cividis.js";
import { cssVar, el } from "./dom.js";
import { amount, percent, t } from "./i18n.js";
import { hideTip, showTip } from "./tip.js";

const NAMED = 48;

// The share of a resource that is asked for, or in use, on a node; null: it has none of it.
export function shareOf(node, resource, used) {
  if (used) {
    const room = node[resource]?.[1], taken = node.used?.[resource];
    return room && taken !== undefined ? taken / room : null;
  }
  const pair = node[resource];
  return pair && pair[1] > 0 ? pair[0] / pair[1] : null;
}

export class HeatMap {
  constructor({ open }) {
    this.nodes = [];
    this.resource = "cpu";
    this.used = false;
    this.at = -1;
    this.canvas = el("canvas", { class: "heat", tabindex: "0", role: "application", "aria-label": t("heat.label"), "aria-describedby": "heat-told" });
    this.told = el("p", { id: "heat-told", class: "soft small", "aria-live": "polite" });
    this.open = open;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { hideTip(); this.move(-1); });
    this.canvas.addEventListener("click", (event) => { const at = this.under(event); if (at >= 0) { hideTip(); open(this.nodes[at].name); } });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.move(-1));
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.canvas);
  }

  show(nodes, resource, used) {
    this.nodes = nodes;
    this.resource = resource;
    this.used = used;
    this.draw();
  }

  layout() {
    const count = Math.max(1, this.nodes.length), wide = this.canvas.clientWidth || 800;
    this.named = count <= NAMED;
    if (this.named) {
      this.columns = Math.max(1, Math.min(count, Math.floor(wide / 132)));
      this.cell = wide / this.columns;
      this.tall = 46;
      this.gap = 6;
    } else {
      const side = Math.max(7, Math.min(26, Math.sqrt(wide * 330 / count)));
      this.columns = Math.floor(wide / side);
      this.cell = wide / this.columns;
      this.tall = this.cell;
      this.gap = this.cell > 12 ? 2 : 1;
    }
    return Math.ceil(count / this.columns) * this.tall;
  }

  draw() {
    const canvas = this.canvas, tall = Math.max(this.tall ?? 0, this.layout()), ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.style.height = `${tall}px`;
    canvas.width = Math.round((canvas.clientWidth || 800) * ratio);
    canvas.height = Math.round(tall * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const failed = cssVar("--failed"), soft = cssVar("--soft"), none = cssVar("--faint");
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (let place = 0; place < this.nodes.length; place++) {
      const node = this.nodes[place], [x, y, wide, high] = this.box(place), share = shareOf(node, this.resource, this.used);
      const colour = share === null ? null : palette[Math.max(0, Math.min(255, Math.round(share * 255)))];
      pen.fillStyle = colour ? `rgb(${colour[0]} ${colour[1]} ${colour[2]})` : none;
      pen.fillRect(x, y, wide, high);
      if (!node.ready) {
        pen.strokeStyle = failed;
        pen.lineWidth = this.gap > 1 ? 2 : 1.5;
        pen.strokeRect(x + 1, y + 1, wide - 2, high - 2);
        pen.beginPath();
        pen.moveTo(x, y + high);
        pen.lineTo(x + wide, y);
        pen.stroke();
      } else if (node.cordoned) {
        pen.strokeStyle = soft;
        pen.setLineDash([3, 2]);
        pen.lineWidth = 1.5;
        pen.strokeRect(x + 1, y + 1, wide - 2, high - 2);
        pen.setLineDash([]);
      }
      if (this.named) this.name(pen, node, share, [x, y, wide, high], colour);
    }
    if (this.at >= 0 && this.at < this.nodes.length) {
      const [x, y, wide, high] = this.box(this.at);
      pen.strokeStyle = cssVar("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(x - 0.5, y - 0.5, wide + 1, high + 1);
    }
  }

  name(pen, node, share, [x, y, wide, high], colour) {
    const bright = colour ? (colour[0] * 299 + colour[1] * 587 + colour[2] * 114) / 1000 > 125 : true;
    pen.fillStyle = colour ? (bright ? "#101010" : "#ffffff") : cssVar("--ink");
    const room = Math.max(3, Math.floor((wide - 14) / 7));
    const text = node.name.length > room ? `${node.name.slice(0, room - 1)}…` : node.name;
    pen.fillText(text, x + 7, y + high / 2 - 8);
    pen.fillText(share === null ? "–" : percent(share), x + 7, y + high / 2 + 8);
  }

  box(place) {
    const column = place % this.columns, row = Math.floor(place / this.columns);
    return [column * this.cell, row * this.tall, this.cell - this.gap, this.tall - this.gap];
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.cell), row = Math.floor((event.clientY - box.top) / this.tall);
    const at = row * this.columns + column;
    return column >= 0 && column < this.columns && at < this.nodes.length ? at : -1;
  }

  describe(node) {
    const lines = [];
    for (const resource of ["cpu", "memory", "gpu", "pods"]) {
      const share = shareOf(node, resource, false);
      if (share === null) continue;
      lines.push([t(`resource.${resource}`), `${percent(share)} · ${amount(resource, node[resource][0])} / ${amount(resource, node[resource][1])}`]);
      const used = shareOf(node, resource, true);
      if (used !== null) lines.push([`${t(`resource.${resource}`)} ${t("heat.inUse")}`, percent(used)]);
    }
    const state = node.ready ? (node.cordoned ? t("node.cordoned") : t("node.ready")) : t("node.notReady");
    return [`${node.name} · ${state}`, lines];
  }

  point(event) {
    const at = this.under(event);
    this.move(at);
    if (at < 0) { hideTip(); return; }
    showTip(event, ...this.describe(this.nodes[at]));
  }

  move(at) {
    if (at === this.at) return;
    this.at = at;
    this.canvas.style.cursor = at >= 0 ? "pointer" : "default";
    this.draw();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
    if (event.key === "Enter" && this.at >= 0) { this.open(this.nodes[this.at].name); return; }
    if (step === undefined || !this.nodes.length) return;
    event.preventDefault();
    this.move(Math.max(0, Math.min(this.nodes.length - 1, this.at < 0 ? 0 : this.at + step)));
    const [title, lines] = this.describe(this.nodes[this.at]);
    this.told.textContent = `${title}: ${lines.map((line) => line.join(" ")).join(", ")}`;
  }

  rows() {
    return [["node", "ready", "cordoned", "resource", "requested", "capacity", "used"],
      ...this.nodes.map((node) => [node.name, node.ready, node.cordoned, this.resource, node[this.resource]?.[0] ?? "", node[this.resource]?.[1] ?? "", node.used?.[this.resource] ?? ""])];
  }
}
