"""The class rows of an open cluster: pods with equal specs share one; a class without pods stays a while."""

from __future__ import annotations

from collections.abc import Callable

from proreus.model.pod import PodSpec
from proreus.model.resources import Resources
from proreus.worlds.pods.state.columns import Classes
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.objects import HostPort, class_columns, host_ports, ports_conflict
from proreus.worlds.pods.state.open.capacity import NOBODY, PORT, Room
from proreus.worlds.pods.state.open.nodes import NodeRows
from proreus.worlds.pods.state.open.shapes import ShapeRows
from proreus.worlds.pods.state.open.terms import TermRows

_NOTHING = PodSpec(Resources())


class ClassRows:
    """Which spec has which row, how many pods are of it, and which rows can be given to others."""

    def __init__(
        self, nodes: NodeRows, shapes: ShapeRows, terms: TermRows, room: Room, most_idle: int
    ) -> None:
        self._room, self._nodes, self._shapes, self._terms = room, nodes, shapes, terms
        self._most_idle = most_idle
        self.specs: list[PodSpec] = [_NOTHING] * room.sizes["C"]
        """One for every row; that of a spare row asks for nothing."""
        self.pods: list[int] = [0] * room.sizes["C"]
        """How many pods are of the class, running or waiting."""
        self._row: dict[PodSpec, int] = {}
        self._known: dict[int, int] = {}
        """Identity of a spec that stands for its class -> row: spares hashing what is the same object."""
        self._free = list(range(room.sizes["C"]))[::-1]
        self._idle: dict[int, None] = {}
        """Classes without pods, longest unused first."""
        self._ports: Ids[HostPort] = Ids()
        self.protect: Callable[[int, PodSpec], None] = lambda c, spec: None
        """Told of every class that gets a row, so that budgets can look at it."""
        self.reused: Callable[[], None] = lambda: None
        """Told when rows are free to be given to other specs."""

    def __len__(self) -> int:
        return len(self._row)

    def row(self, spec: PodSpec) -> int:
        """The row of a spec; a new one where it was not known."""
        c = self._known.get(id(spec))
        if c is None:
            c = self._row.get(spec)
        return self._add(spec) if c is None else c

    def join(self, c: int) -> None:
        """One pod more in the class."""
        if not self.pods[c]:
            del self._idle[c]
            self._room.classes.priority[c] = self.specs[c].priority
        self.pods[c] += 1

    def leave(self, c: int) -> None:
        """One pod fewer."""
        self.pods[c] -= 1
        if not self.pods[c]:
            self._idle[c] = None
            self._room.classes.priority[c] = NOBODY

    def ask(self, c: int, before: int) -> None:
        """Somebody asks about a pod of class c; `before` was asked about last, -1 for none."""
        priority = self._room.classes.priority
        if before >= 0 and not self.pods[before]:
            priority[before] = NOBODY
        if not self.pods[c]:
            priority[c] = self.specs[c].priority
            del self._idle[c]
            self._idle[c] = None

    def _add(self, spec: PodSpec) -> int:
        c = self._spare_row()
        self.specs[c] = spec
        self._row[spec], self._known[id(spec)] = c, c
        self._idle[c] = None
        self._nodes.add_extended([name for name, _ in spec.requests.extended])
        shape = self._shapes.take(spec)
        columns = self._room.classes
        for name, column in class_columns([spec], self._nodes.extended).items():
            self._room.write(getattr(columns, name), c, column)
        columns.priority[c] = NOBODY
        columns.shape[c] = shape
        columns.epoch[c] += 1
        self._room.put(PORT, c, [(self._take_port(port),) for port in host_ports(spec)])
        self._terms.add_class(c, spec)
        self.protect(c, spec)
        return c

    def _spare_row(self) -> int:
        """A row for one more class; where too many stand idle, the longest unused half of these goes."""
        most = max(self._most_idle, self._room.sizes["C"] // 2)
        if not self._free and len(self._idle) >= most:
            for c in list(self._idle)[: (len(self._idle) + 1) // 2]:
                self._drop(c)
            self.reused()
        if not self._free:
            before = self._room.sizes["C"]
            self._room.ensure(C=before + 1)
            more = self._room.sizes["C"] - before
            self._free = list(range(before, before + more))[::-1]
            self.specs += [_NOTHING] * more
            self.pods += [0] * more
        return self._free.pop()

    def _drop(self, c: int) -> None:
        """Give up the row of a class without pods."""
        spec = self.specs[c]
        del self._row[spec], self._known[id(spec)], self._idle[c]
        self._terms.drop_class(c)
        self._shapes.drop(spec)
        self._room.put(PORT, c, [])
        for port in host_ports(spec):
            self._drop_port(port)
        epoch = int(self._room.classes.epoch[c])
        self._room.clear(Classes, "C", c)
        self._room.classes.epoch[c] = epoch
        self._room.budgets.selects[:, c] = False
        self.specs[c] = _NOTHING
        self._free.append(c)

    def _take_port(self, port: HostPort) -> int:
        q, new = self._ports.take(port)
        if new:
            self._room.ensure(Q=q + 1)
            conflict = self._room.ports.conflict
            for other, at in self._ports.items():
                conflict[q, at] = conflict[at, q] = ports_conflict(port, other)
        return q

    def _drop_port(self, port: HostPort) -> None:
        q, gone = self._ports.drop(port)
        if gone:
            conflict = self._room.ports.conflict
            conflict[q] = conflict[:, q] = False
