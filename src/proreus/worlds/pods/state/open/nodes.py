"""The node rows of an open cluster: dense, in order of arrival, with their domains, zones and images."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.model.node import HOSTNAME, Node, Taint
from proreus.model.resources import BASE_COLUMNS
from proreus.worlds.pods.state.columns import Nodes, Shapes, State
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.images import ImageSpread
from proreus.worlds.pods.state.objects import node_columns, zone_of, zone_round_robin
from proreus.worlds.pods.state.open.capacity import Own, Room

Kind: TypeAlias = tuple[tuple[tuple[str, str], ...], tuple[Taint, ...], bool, str]
"""All that a node says to pods which do not ask for names."""


class NodeRows:
    """Which node has which row, and what the columns hold about it."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.nodes: list[Node] = []
        self.row: dict[str, int] = {}
        self.images = ImageSpread()
        self.kinds: Ids[Kind] = Ids()
        self.extended: dict[str, int] = {}
        """Names of the extended resources and their places; a column, once there, stays."""
        self.models: list[str] = []
        """GPU models; a number, once given, stays."""
        self._zones: Ids[tuple[str, str]] = Ids()
        self._keys: Ids[str] = Ids()
        self._domains: dict[str, Ids[str]] = {}
        self.take_key(HOSTNAME)

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: Node) -> int:
        """A row for one more node, the last; what runs there is not its business."""
        n = len(self.nodes)
        self._room.ensure(N=n + 1)
        self.nodes.append(node)
        self.row[node.name] = n
        self._write(n)
        return n

    def replace(self, n: int, node: Node) -> None:
        """Another description of the node in row n."""
        self._forget(n)
        self.nodes[n] = node
        self._write(n)

    def remove(self, n: int) -> None:
        """The node in row n went; the rows behind it move up."""
        self._forget(n)
        del self.nodes[n]
        self.row = {node.name: at for at, node in enumerate(self.nodes)}
        last = len(self.nodes)
        for axes, column in self._room.by_node():
            if axes[0] == "N":
                column[n:last] = column[n + 1 : last + 1]
            else:
                close_gap(column, n, last)
        for group in (Nodes, Shapes, State, Own):
            self._room.clear(group, "N", last)
        pods = self._room.state.pod_node
        pods[pods > n] -= 1

    def add_extended(self, names: list[str]) -> None:
        """Columns for extended resources that nobody had or asked for so far."""
        for name in names:
            self.extended.setdefault(name, len(self.extended))
        self._room.widen_resources(len(BASE_COLUMNS) + len(self.extended))

    def take_key(self, key: str) -> int:
        """The row of a topology key, which is in use once more."""
        k, new = self._keys.take(key)
        if new:
            self._room.ensure(K=k + 1)
            self._domains[key] = Ids()
            for n, node in enumerate(self.nodes):
                self._take_domain(key, k, n, node)
            self._room.grown = True  # whoever keeps a figure per domain may need more of them now
            if key == HOSTNAME:
                self._room.nodes.hostname_key[0] = k
        return k

    def drop_key(self, key: str) -> None:
        """One use fewer of a topology key."""
        k, gone = self._keys.drop(key)
        if gone:
            del self._domains[key]
            self._room.nodes.domain[k] = -1
            self._room.nodes.domains[k] = 0

    def visit_order(self) -> I64:
        """kube-scheduler's order; int64[N]."""
        return zone_round_robin(self._room.own.zone[: len(self.nodes)])

    def _write(self, n: int) -> None:
        node = self.nodes[n]
        self.add_extended([name for name, _ in node.allocatable.extended])
        if node.gpu_count and node.gpu_model not in self.models:
            self.models.append(node.gpu_model)
        self._room.widen(G=node.gpu_count)
        for name, column in node_columns([node], self.extended, self.models).items():
            self._room.write(getattr(self._room.nodes, name), n, column)
        self._room.own.zone[n] = self._zones.take(zone_of(node))[0]
        self._room.own.kind[n] = self.kinds.take(kind_of(node))[0]
        self.images.add(node)
        for key, k in self._keys.items():
            self._take_domain(key, k, n, node)

    def _take_domain(self, key: str, k: int, n: int, node: Node) -> None:
        value, columns = node.label_map().get(key), self._room.nodes
        if value is None:
            columns.domain[k, n] = -1
            return
        domains = self._domains[key]
        columns.domain[k, n] = domains.take(value)[0]
        columns.domains[k] = domains.limit

    def _forget(self, n: int) -> None:
        node = self.nodes[n]
        self._zones.drop(zone_of(node))
        self.kinds.drop(kind_of(node))
        self.images.remove(node)
        labels = node.label_map()
        for key, _ in self._keys.items():
            if key in labels:
                self._domains[key].drop(labels[key])


def kind_of(node: Node) -> Kind:
    """Equal for nodes that say the same to every pod that asks for no names."""
    labels = tuple((key, value) for key, value in node.labels if key != HOSTNAME)
    return labels, node.taints, node.unschedulable, node.gpu_model


@compiled
def close_gap(table: np.typing.NDArray[np.generic], n: int, last: int) -> None:
    """table: [X, >= last + 1]; columns n + 1 .. last move one to the left."""
    for x in range(table.shape[0]):
        for at in range(n, last):
            table[x, at] = table[x, at + 1]
