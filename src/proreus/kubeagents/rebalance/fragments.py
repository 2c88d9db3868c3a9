"""Free CPU in pieces that are too small, and the search of the world `rebalance` that puts them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from proreus.kubeagents.cluster_view import ClusterView
from proreus.model.resources import COL_CPU, COL_MEMORY, MIB
from proreus.worlds.rebalance.snapshots.model import CPU, MEMORY, Snapshot
from proreus.worlds.rebalance.snapshots.policies.search import SearchOptions, search_plan
from proreus.worlds.rebalance.snapshots.state import machines_of

_EFFORT = 500


class Wanted(Protocol):
    """What of a plan's options counts here."""

    @property
    def piece(self) -> int:
        """Thousandths of cores of a whole piece."""
        ...

    @property
    def most(self) -> int:
        """Moves."""
        ...


def fragment_share(view: ClusterView, piece: int) -> float:
    """Share of the free CPU of open nodes that belongs to no whole piece; 0 where nothing is free."""
    _, state = view.cluster.columns()
    names = list(view.cluster.node_names())
    rows = [view.cluster.node_at(name) for name in names if not view.cluster.node(name).unschedulable]
    free = np.maximum(state.free[rows, COL_CPU], 0)
    return float((free % piece).sum() / max(int(free.sum()), 1))


def proposed_moves(view: ClusterView, movable: Sequence[str], wanted: Wanted, seed: int) -> list[str]:
    """The pods that annealing over whole plans would move, in an order in which each has room.

    It knows of CPU and memory only: whoever plays the moves asks the rules about everything else.
    """
    names = [name for name in view.cluster.node_names() if not view.cluster.node(name).unschedulable]
    place = {name: number for number, name in enumerate(names)}
    pods = [key for key in sorted(movable) if view.known[key].node in place]
    pods = [key for key in pods if view.known[key].template.spec.requests.cpu > 0]
    if not pods or len(names) < 2:
        return []
    _, state = view.cluster.columns()
    rows = [view.cluster.node_at(name) for name in names]
    # A node is a machine whose second NUMA node has nothing; memory counts in MiB.
    free = np.zeros((len(names), 2, 2), dtype=np.int64)
    free[:, 0, CPU] = np.maximum(state.free[rows, COL_CPU], 0)
    free[:, 0, MEMORY] = np.maximum(state.free[rows, COL_MEMORY], 0) // MIB
    requests = [view.known[key].template.spec.requests for key in pods]
    demand = np.array([(one.cpu, -(-one.memory // MIB)) for one in requests], dtype=np.int64)
    machine = np.array([place[view.known[key].node] for key in pods], dtype=np.int64)
    total = free.copy()
    np.add.at(total[:, 0], machine, demand)
    nowhere = np.zeros(len(pods), dtype=np.int64)
    snapshot = Snapshot(
        name="cluster",
        machines=tuple(names),
        vms=tuple(pods),
        total=total,
        free=free,
        demand=demand,
        double=np.zeros(len(pods), dtype=np.bool_),
        machine=machine,
        numa=nowhere,
        movable=np.ones(len(pods), dtype=np.bool_),
        group=np.zeros(len(names), dtype=np.int64),
    )
    machines = machines_of(snapshot, wanted.piece, within_clusters=False)
    plan = search_plan(machines, wanted.most, SearchOptions(effort=_EFFORT, seed=seed))
    return [pods[int(vm)] for vm, _, _ in plan]
