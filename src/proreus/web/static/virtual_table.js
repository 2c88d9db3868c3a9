// A table of any length that has only the rows in sight in the page.
import { el } from "./dom.js";

const ROW = 30, AROUND = 12;

export class VirtualTable {
  // columns: [{key, title, cell(row) -> Node or text, sort?, narrow?}]; rows: () => array.
  constructor(columns, rows, { onSort, label, tall = 460 } = {}) {
    this.columns = columns;
    this.rows = rows;
    this.head = el("tr", null, columns.map((column) => {
      const title = column.sort
        ? el("button", { type: "button", class: "sort", data: { sort: column.sort }, on: { click: () => onSort(column.sort) } }, column.title)
        : column.title;
      return el("th", { scope: "col", class: column.narrow ? "" : "wide" }, title);
    }));
    this.before = el("tbody", { class: "spacer", "aria-hidden": "true" }, el("tr", null, el("td", { colspan: columns.length })));
    this.body = el("tbody");
    this.after = el("tbody", { class: "spacer", "aria-hidden": "true" }, el("tr", null, el("td", { colspan: columns.length })));
    this.table = el("table", { class: "virtual", "aria-label": label }, el("thead", null, this.head), this.before, this.body, this.after);
    this.root = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, css: { "max-height": `${tall}px` }, on: { scroll: () => this.draw() } }, this.table);
    this.shown = "";
  }

  mark(sort, down) {
    for (const button of this.head.querySelectorAll(".sort")) {
      const mine = button.dataset.sort === sort;
      button.closest("th").setAttribute("aria-sort", mine ? (down ? "descending" : "ascending") : "none");
    }
  }

  draw(again = false) {
    const rows = this.rows(), tall = this.root.clientHeight || 460;
    const first = Math.max(0, Math.min(rows.length, Math.floor(this.root.scrollTop / ROW) - AROUND));
    const last = Math.min(rows.length, first + Math.ceil(tall / ROW) + 2 * AROUND);
    const now = `${first}-${last}-${rows.length}`;
    if (!again && now === this.shown) return;
    this.shown = now;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.before.firstChild.firstChild.style.height = `${first * ROW}px`;
    this.after.firstChild.firstChild.style.height = `${(rows.length - last) * ROW}px`;
    this.before.hidden = first === 0;
    this.after.hidden = last === rows.length;
    // A row that has the keyboard keeps it.
    const focused = this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.body.replaceChildren(...rows.slice(first, last).map((row, place) => el("tr", { "aria-rowindex": String(first + place + 2) },
      this.columns.map((column) => el("td", { class: column.narrow ? "" : "wide" }, column.cell(row))))));
    if (focused) [...this.body.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }
}
