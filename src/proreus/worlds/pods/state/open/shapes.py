"""The shape rows of an open cluster: what every node by itself says to pods of a shape.

Nodes that differ in name alone say the same to a pod that asks for no names: they are asked once.
"""

from __future__ import annotations

import numpy as np

from proreus.model.pod import PodSpec
from proreus.worlds.pods.state.columns import Shapes
from proreus.worlds.pods.state.filters import NODE_NOT_NAMED, OK
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.open.capacity import NAMED, Room
from proreus.worlds.pods.state.open.nodes import NodeRows
from proreus.worlds.pods.state.static import (
    ShapeKey,
    asks_for_names,
    pair,
    refused_everywhere,
    shape_key,
    tolerates,
)


class ShapeRows:
    """Which shape has which row; one spec stands for each."""

    def __init__(self, room: Room, nodes: NodeRows) -> None:
        self._room, self._nodes = room, nodes
        self._ids: Ids[ShapeKey] = Ids()
        self._example: dict[int, PodSpec] = {}
        self._by_name: set[int] = set()
        """Shapes for which every node is asked by itself."""
        self._narrowed: set[int] = set()
        self._image_seen: dict[int, int] = {}
        self._image_epoch = 0
        self.stale_order = True
        """The nodes that shapes name are to be listed anew."""

    def take(self, spec: PodSpec) -> int:
        """The row of the spec's shape, which is in use once more."""
        s, new = self._ids.take(shape_key(spec))
        if new:
            self._room.ensure(S=s + 1)
            if spec.image_volumes and not self._room.sizes["M"]:
                self._room.widen(M=self._room.sizes["S"])
                self.images_changed()
            self._add(s, spec)
        return s

    def drop(self, spec: PodSpec) -> None:
        """One use fewer of the spec's shape."""
        s, gone = self._ids.drop(shape_key(spec))
        if gone:
            del self._example[s]
            self._image_seen.pop(s, None)
            self._by_name.discard(s)
            self._narrowed.discard(s)
            self._room.clear(Shapes, "S", s)
            self.stale_order = True

    def images_changed(self) -> None:
        """Which nodes there are, or which images they have, changed."""
        self._image_epoch += 1

    def fill_node(self, n: int) -> None:
        """What node n says to every shape."""
        shapes, kind = self._room.shapes, self._room.own.kind
        same = np.flatnonzero(kind[: len(self._nodes)] == kind[n])
        twin = next((m for m in same[:2].tolist() if m != n), None)
        for s in self._example if twin is None else self._by_name:
            self._ask(s, n)
        if twin is None:
            return
        others = [s for s in self._example if s not in self._by_name]
        for column in (
            shapes.blocked,
            shapes.repelled,
            shapes.preferred,
            shapes.allowed,
            shapes.tolerated,
        ):
            column[others, n] = column[others, twin]

    def list_named(self) -> None:
        """List the nodes that shapes name, in visiting order; that order must stand."""
        if not self.stale_order:
            return
        visited = np.argsort(self._room.nodes.visit_order[: len(self._nodes)])
        lengths = np.zeros(self._ids.limit, dtype=np.int64)
        flat: list[int] = []
        for s in sorted(self._narrowed):
            spec, row = self._example[s], self._nodes.row
            names = spec.node_affinity.names() or frozenset()
            rows = [] if refused_everywhere(spec) else [row[name] for name in names if name in row]
            flat += sorted(rows, key=visited.__getitem__)
            lengths[s] = len(rows)
        self._room.put_all(NAMED, lengths, np.array(flat, dtype=np.int64))
        self.stale_order = False

    def refresh_images(self, s: int) -> None:
        """Score the images of a shape, unless nothing changed since they were scored last."""
        if self._image_seen.get(s) == self._image_epoch:
            return
        self._image_seen[s] = self._image_epoch
        spec, count = self._example[s], len(self._nodes)
        scores, row = self._nodes.images.scores, self._nodes.row
        self._room.shapes.image[s, :count] = scores(spec.images, (), row)
        if self._room.sizes["M"]:
            self._room.shapes.image_mounted[s, :count] = scores(spec.images, spec.image_volumes, row)

    def _add(self, s: int, spec: PodSpec) -> None:
        self._example[s] = spec
        shapes = self._room.shapes
        shapes.has_preferred[s] = bool(spec.node_affinity.preferred)
        named = spec.node_affinity.names() is not None
        shapes.narrowed[s] = named or refused_everywhere(spec) != OK
        if shapes.narrowed[s]:
            self._narrowed.add(s)
            self.stale_order = True
        if asks_for_names(spec):
            self._by_name.add(s)
            for n in range(len(self._nodes)):
                self._ask(s, n)
            return
        kind = self._room.own.kind[: len(self._nodes)]
        kinds, first, of = np.unique(kind, return_index=True, return_inverse=True)
        for n in first.tolist():
            self._ask(s, n)
        if len(kinds) < len(kind):
            for column in (
                shapes.blocked,
                shapes.repelled,
                shapes.preferred,
                shapes.allowed,
                shapes.tolerated,
            ):
                column[s, : len(kind)] = column[s, first][of]

    def _ask(self, s: int, n: int) -> None:
        """Fill one pair."""
        spec, node, shapes = self._example[s], self._nodes.nodes[n], self._room.shapes
        shapes.tolerated[s, n] = tolerated = tolerates(spec, node)
        names = spec.node_affinity.names()
        if names is not None and node.name not in names:
            shapes.blocked[s, n] = refused_everywhere(spec) or NODE_NOT_NAMED
            shapes.repelled[s, n] = shapes.preferred[s, n] = 0
            shapes.allowed[s, n] = False
            return
        said = pair(spec, node, node.label_map(), tolerated=tolerated)
        shapes.blocked[s, n], shapes.repelled[s, n], shapes.preferred[s, n], shapes.allowed[s, n] = said
