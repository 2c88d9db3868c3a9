"""The columns of an open cluster: capacity beyond what is in use, and more of it where it is spent.

Spare rows are inert: they select nothing and hold nothing, so kernels may pass over them. Where a kernel
takes the length of a column for the number of nodes, it gets a view of exactly the nodes that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64, I64
from proreus.model.resources import BASE_COLUMNS
from proreus.worlds.pods.state.columns import (
    Budgets,
    Classes,
    Nodes,
    Ports,
    Scratch,
    Shapes,
    State,
    Terms,
)

_NARROW = 16
"""Columns that a row of resources has before there are spare ones: all clusters but odd ones have fewer, and
every row pays for each."""
NOBODY = 1 << 62
"""The priority of a class that nobody is of: above all others, so that it is never the lowest."""
Group = TypeVar("Group", bound=tuple[Any, ...])


class _Column(NamedTuple):
    """Axes, one letter each (see `_sizes_of`), type, and what a spare row holds."""

    axes: str
    dtype: type = np.int64
    spare: float = 0


class Own(NamedTuple):
    """What no kernel of the closed form knows."""

    kind: I64  # [N] equal for nodes that say the same to every pod that asks for no names
    zone: I64  # [N] equal for nodes of one zone
    base_load: F64  # [N, 2] measured cpu that no listed pod accounts for: mean and variance, also below 0


_LAYOUT: dict[type[Any], dict[str, _Column]] = {
    Nodes: {
        "allocatable": _Column("NR"),
        "gpu_count": _Column("N"),
        "gpu_model": _Column("N", spare=-1),
        "domain": _Column("KN", spare=-1),
        "domains": _Column("K"),
        "hostname_key": _Column("1"),
        "visit_order": _Column("N"),
        "pace": _Column("N6", np.float64),
    },
    Classes: {
        "request": _Column("CR"),
        "scoring": _Column("C2"),
        "scoring_incoming": _Column("C2"),
        "gpu_num": _Column("C"),
        "gpu_milli": _Column("C"),
        "gpu_kind": _Column("C", spare=-1),
        "shape": _Column("C"),
        "priority": _Column("C", spare=NOBODY),
        "may_preempt": _Column("C", np.bool_),
        "load": _Column("C2", np.float64),
        "cpu_limit": _Column("C"),
        "load_guess": _Column("C", np.float64),
        "port_start": _Column("c"),
        "port": _Column("p"),
        "epoch": _Column("C"),
    },
    Shapes: {
        "blocked": _Column("SN", np.int8),
        "repelled": _Column("SN"),
        "preferred": _Column("SN"),
        "has_preferred": _Column("S", np.bool_),
        "image": _Column("SN"),
        "image_mounted": _Column("MN"),
        "allowed": _Column("SN", np.bool_),
        "tolerated": _Column("SN", np.bool_),
        "narrowed": _Column("S", np.bool_),
        "named_start": _Column("s"),
        "named": _Column("m"),
    },
    Terms: {
        "key": _Column("T"),
        "selects": _Column("TC", np.bool_),
        "need_start": _Column("c"),
        "need": _Column("n"),
        "self_sufficient": _Column("C", np.bool_),
        "avoid_start": _Column("c"),
        "avoid": _Column("a"),
        "like_start": _Column("c"),
        "like": _Column("l"),
        "like_weight": _Column("l"),
        "draw_start": _Column("c"),
        "draw": _Column("d"),
        "draw_weight": _Column("d"),
        "feel_start": _Column("c"),
        "feel": _Column("f"),
        "shun_start": _Column("c"),
        "shun": _Column("h"),
        "spread_start": _Column("c"),
        "spread": _Column("e"),
        "spread_skew": _Column("e"),
        "spread_min_domains": _Column("e"),
        "spread_hard": _Column("e", np.bool_),
        "spread_default": _Column("e", np.bool_),
        "spread_affinity": _Column("e", np.bool_),
        "spread_taints": _Column("e", np.bool_),
        "spread_self": _Column("e", np.bool_),
    },
    Ports: {"conflict": _Column("QQ", np.bool_)},
    Budgets: {
        "selects": _Column("BC", np.bool_),
        "min_available": _Column("B", spare=-1),
        "max_unavailable": _Column("B", spare=-1),
        "allowed": _Column("B", spare=-1),
    },
    State: {
        "free": _Column("NR"),
        "gpu_left": _Column("NG"),
        "scored": _Column("N2"),
        "load": _Column("N2", np.float64),
        "kinds": _Column("Ng"),
        "fragment": _Column("N", np.float64),
        "ports_used": _Column("QN"),
        "matching": _Column("TN"),
        "matching_in": _Column("TD"),
        "matching_all": _Column("T"),
        "avoided_in": _Column("TD"),
        "drawn_in": _Column("TD"),
        "healthy": _Column("B"),
        "expected": _Column("B"),
        "pod_node": _Column("P", spare=-1),
        "pod_devices": _Column("P"),
        "pod_since": _Column("P", np.float64),
        "pod_rank": _Column("P"),
        "first": _Column("N", spare=-1),
        "following": _Column("P", spare=-1),
        "preceding": _Column("P", spare=-1),
        "changed": _Column("L"),
        "counts": _Column("2"),
    },
    Scratch: {
        "spread_count": _Column("H1"),  # its width is that of the widest topology key, see `OpenCluster`
        "spread_min": _Column("H"),
        "nodes": _Column("N"),
        "pods": _Column("P"),
        "flags": _Column("P", np.int8),
        "taken": _Column("B"),
    },
    Own: {"kind": _Column("N"), "zone": _Column("N"), "base_load": _Column("N2", np.float64)},
}
_STARTS = ("c", "s")


class RaggedLists(NamedTuple):
    """A ragged list per row: offsets, the flat columns beside each other, their axis."""

    group: str
    start: str
    flat: tuple[str, ...]
    axis: str


PORT = RaggedLists("classes", "port_start", ("port",), "p")
NAMED = RaggedLists("shapes", "named_start", ("named",), "m")
NEED = RaggedLists("terms", "need_start", ("need",), "n")
AVOID = RaggedLists("terms", "avoid_start", ("avoid",), "a")
LIKE = RaggedLists("terms", "like_start", ("like", "like_weight"), "l")
DRAW = RaggedLists("terms", "draw_start", ("draw", "draw_weight"), "d")
FEEL = RaggedLists("terms", "feel_start", ("feel",), "f")
SHUN = RaggedLists("terms", "shun_start", ("shun",), "h")
SPREAD = RaggedLists(
    "terms",
    "spread_start",
    (
        "spread",
        "spread_skew",
        "spread_min_domains",
        "spread_hard",
        "spread_default",
        "spread_affinity",
        "spread_taints",
        "spread_self",
    ),
    "e",
)


class Room:
    """The columns at full capacity, by group; they change their identity where they grow."""

    nodes: Nodes
    classes: Classes
    shapes: Shapes
    terms: Terms
    ports: Ports
    budgets: Budgets
    state: State
    scratch: Scratch
    own: Own
    pod_class: I64  # [P] -> C, -1 for a row without a pod

    def __init__(self) -> None:
        spares = dict.fromkeys("NCSTKQB", 4) | {"P": 16} | dict.fromkeys("nmaldfhep", 4)
        self.sizes: dict[str, int] = {**spares, "G": 1, "H": 1, "M": 0, "R": len(BASE_COLUMNS)}
        self.grown = True
        """Columns were replaced since somebody last asked; handles over the old ones are stale."""
        sizes = _with_derived(self.sizes)
        for kind, layout in _LAYOUT.items():
            columns = {name: _spare(column, sizes) for name, column in layout.items()}
            setattr(self, kind.__name__.lower(), kind(**columns))
        self.pod_class = np.full(sizes["P"], -1, dtype=np.int64)

    def ensure(self, **wanted: int) -> None:
        """Capacity for so many along each axis; half as much again where it falls short.

        Doubling would waste more, above all in tables with two such axes, and rows whose length is a power of
        two share too few lines of the processor's cache.
        """
        new = dict(self.sizes)
        for axis, count in wanted.items():
            while new[axis] < count:
                new[axis] += new[axis] // 2 + 1
        self._resize(new)

    def widen(self, **wanted: int) -> None:
        """Exactly so many along each axis, if there were fewer: for axes that every row pays for."""
        self._resize({**self.sizes, **{axis: max(n, self.sizes[axis]) for axis, n in wanted.items()}})

    def widen_resources(self, count: int) -> None:
        """So many resource columns; where they are many, half as many again.

        Each that comes moves all rows: who names a resource on every node would have them moved as often.
        """
        now = self.sizes["R"]
        if count > now:
            self.widen(R=count if count <= _NARROW else max(count, now + now // 2))

    def write(self, column: NDArray[Any], row: int, values: NDArray[Any]) -> None:
        """One row; values: [1, ...], which may lack spare columns."""
        column[row : row + 1][tuple(slice(0, length) for length in values.shape)] = values

    def _resize(self, new: dict[str, int]) -> None:
        if new["M"]:
            new["M"] = new["S"]
        if new == self.sizes:
            return
        before, after = _with_derived(self.sizes), _with_derived(new)
        for kind, layout in _LAYOUT.items():
            group = getattr(self, kind.__name__.lower())
            replaced = {
                name: _grown(getattr(group, name), column, after)
                for name, column in layout.items()
                if any(before[axis] != after[axis] for axis in column.axes)
            }
            if replaced:
                setattr(self, kind.__name__.lower(), group._replace(**replaced))
        if before["P"] != after["P"]:
            self.pod_class = _grown(self.pod_class, _Column("P", spare=-1), after)
        self.sizes, self.grown = new, True

    def put(self, lists: RaggedLists, row: int, entries: Sequence[Sequence[int]]) -> bool:
        """The list of one row, in place of what it was; entries: one tuple per flat column each.

        Returns whether the lists behind it moved.
        """
        start = getattr(getattr(self, lists.group), lists.start)
        begin, end, used = int(start[row]), int(start[row + 1]), int(start[-1])
        change = len(entries) - (end - begin)
        if not entries and not change:
            return False
        self.ensure(**{lists.axis: used + change})
        group = getattr(self, lists.group)
        values = np.array(entries).reshape(len(entries), len(lists.flat))
        for k, name in enumerate(lists.flat):
            flat = getattr(group, name)
            flat[end + change : used + change] = flat[end:used].copy()
            flat[begin : end + change] = values[:, k]
        getattr(group, lists.start)[row + 1 :] += change
        return change != 0 and end < used

    def put_all(self, lists: RaggedLists, lengths: I64, flat: I64) -> None:
        """The lists of the first rows anew, the others empty; lengths: int64[rows], flat: all entries."""
        self.ensure(**{lists.axis: len(flat)})
        group = getattr(self, lists.group)
        start = getattr(group, lists.start)
        start[1 : len(lengths) + 1] = np.cumsum(lengths)
        start[len(lengths) + 1 :] = len(flat)
        getattr(group, lists.flat[0])[: len(flat)] = flat

    def clear(self, kind: type[Any], axis: str, row: int) -> None:
        """Make one row along an axis spare again, in every column of the group that has the axis."""
        group = getattr(self, kind.__name__.lower())
        for name, column in _LAYOUT[kind].items():
            if axis in column.axes:
                at: list[Any] = [row if letter == axis else slice(None) for letter in column.axes]
                getattr(group, name)[tuple(at)] = column.spare

    def by_node(self) -> Iterable[tuple[str, NDArray[Any]]]:
        """(axes, column) of all columns that have a place for every node."""
        for kind, layout in _LAYOUT.items():
            if kind is not Scratch:
                for name, column in layout.items():
                    if "N" in column.axes:
                        yield column.axes, getattr(getattr(self, kind.__name__.lower()), name)

    def bytes(self) -> int:
        """What the columns take."""
        groups = [getattr(self, kind.__name__.lower()) for kind in _LAYOUT]
        return self.pod_class.nbytes + sum(column.nbytes for group in groups for column in group)


def live(group: Group, nodes: int) -> Group:
    """The group with as many rows of each node column as there are nodes."""
    layout = _LAYOUT[type(group)]
    cut = {name: getattr(group, name)[:nodes] for name, column in layout.items() if column.axes[0] == "N"}
    return cast(Group, cast(Any, group)._replace(**cut))


def _with_derived(sizes: dict[str, int]) -> dict[str, int]:
    """Every axis: those of `columns.py`, the ragged lists in small letters, constants.

    D is as long as N: of a topology key there are never more domains than nodes.
    """
    ring = 1 << max(8, int(2 * sizes["N"] - 1).bit_length())
    constants = {"1": 1, "2": 2, "6": 6}
    derived = {"D": sizes["N"], "L": ring, "g": sizes["G"] + 1, "c": sizes["C"] + 1, "s": sizes["S"] + 1}
    return {**sizes, **constants, **derived}


def _spare(column: _Column, sizes: dict[str, int]) -> NDArray[Any]:
    return np.full([sizes[axis] for axis in column.axes], column.spare, dtype=column.dtype)


def _grown(old: NDArray[Any], column: _Column, sizes: dict[str, int]) -> NDArray[Any]:
    new = _spare(column, sizes)
    new[tuple(slice(0, length) for length in old.shape)] = old
    if column.axes in _STARTS:
        new[len(old) :] = old[-1]
    return new
