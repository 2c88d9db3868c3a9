// Pods in the order and by the filter of a table. A change moves one entry; only many changes sort all anew.
import { live, keyOf, POD } from "./live.js";

const SORTS = {
  name: (a, b) => compare(a[POD.name], b[POD.name]) || compare(a[POD.namespace], b[POD.namespace]),
  namespace: (a, b) => compare(a[POD.namespace], b[POD.namespace]) || compare(a[POD.name], b[POD.name]),
  phase: (a, b) => compare(a[POD.phase], b[POD.phase]) || SORTS.name(a, b),
  node: (a, b) => compare(a[POD.node], b[POD.node]) || SORTS.name(a, b),
  created: (a, b) => compare(b[POD.created], a[POD.created]) || SORTS.name(a, b),
  owner: (a, b) => compare(a[POD.owner], b[POD.owner]) || SORTS.name(a, b),
  cpu: (a, b) => b[POD.cpu] - a[POD.cpu] || SORTS.name(a, b),
  memory: (a, b) => b[POD.memory] - a[POD.memory] || SORTS.name(a, b),
};
const MANY = 400;

function compare(one, other) { return one < other ? -1 : one > other ? 1 : 0; }

export class PodIndex {
  constructor(fixed = () => true) {
    this.fixed = fixed;
    this.sort = "created";
    this.down = false;
    this.words = [];
    this.rows = [];
    this.rebuild();
  }

  // Every word must stand somewhere in the row; "state:running", "node:n1" and "ns:web" ask one column.
  filter(text) {
    const columns = { state: POD.phase, phase: POD.phase, node: POD.node, ns: POD.namespace, namespace: POD.namespace, owner: POD.owner, name: POD.name };
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const at = word.indexOf(":");
      const column = at > 0 ? columns[word.slice(0, at)] : undefined;
      return column === undefined ? [null, word] : [column, word.slice(at + 1)];
    });
    this.rebuild();
  }

  order(sort) {
    this.down = this.sort === sort ? !this.down : false;
    this.sort = sort;
    this.rebuild();
  }

  matches(row) {
    if (!this.fixed(row)) return false;
    return this.words.every(([column, word]) => column === null
      ? [POD.name, POD.namespace, POD.node, POD.phase, POD.owner].some((at) => row[at].toLowerCase().includes(word))
      : row[column].toLowerCase().includes(word));
  }

  compare(a, b) { return this.down ? -SORTS[this.sort](a, b) : SORTS[this.sort](a, b); }

  rebuild() {
    this.rows = [];
    for (const row of live.pods.values()) if (this.matches(row)) this.rows.push(row);
    this.rows.sort((a, b) => this.compare(a, b));
  }

  // changed: "all", or key -> the row before.
  apply(changed) {
    if (changed === "all" || changed.size > MANY) { this.rebuild(); return; }
    for (const [key, before] of changed) {
      if (before && this.matches(before)) {
        const at = this.place(before);
        if (this.rows[at] && keyOf(this.rows[at]) === key) this.rows.splice(at, 1);
      }
      const row = live.pods.get(key);
      if (row && this.matches(row)) this.rows.splice(this.place(row), 0, row);
    }
  }

  place(row) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(this.rows[middle], row) < 0) low = middle + 1; else high = middle;
    }
    return low;
  }
}
