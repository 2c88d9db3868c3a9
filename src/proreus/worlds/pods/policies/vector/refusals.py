"""Which nodes refuse: learned from the next state, since nobody tells.

Who asks by the k8s simulator's vector never says whether an answer was carried out. The next state does: use
rose on the named node, or on another one, where the task went because the named one would not have it (it is
cordoned, it has no GPU, it is full in a way that the shares do not show). A node that refused is not named
again for a task that asks for as much or more, until

- it takes such a task after all, or its use falls: room has come;
- it is a long time ago: a node may be uncordoned, and nobody would ever know;
- nothing runs any more: that is another cluster, or another run.

An unchanged state says nothing: the simulator's plugin asks once for every task and node. Neither does one
where use rose on several nodes at once: then others place tasks, too. All nodes are treated alike, whatever
their order and number, and none of this depends on the model that decides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.kernels.jit import compiled

_NOTHING = 1e-12
"""Shares that differ by less are the same."""
_LIVES_PER_NODE, _LIVES = 4, 64
"""A refusal is remembered for so many changes of the state: per node, and at least."""
_MOST_BYTES = 1 << 25


class ShownNodes(NamedTuple):
    """What one client's cluster of n nodes has shown."""

    shares: F64  # [2n] the state when it was last answered
    task: F64  # [2] what the task of that question asked for; zero where it did not say
    named: I64  # [1] the node of that answer; -1: none
    refused: F64  # [n, 2] the least that each node is known to refuse; infinite: nothing
    since: I64  # [n] when that was, in changes of the state
    changes: I64  # [1]


def new_seen(nodes: int) -> ShownNodes:
    return ShownNodes(
        np.zeros(2 * nodes),
        np.zeros(2),
        np.full(1, -1, dtype=np.int64),
        np.full((nodes, 2), np.inf),
        np.zeros(nodes, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@compiled
def notice(seen: ShownNodes, state: F64) -> None:
    """What this state says of the answer before it."""
    nodes = seen.refused.shape[0]
    if state[: 2 * nodes].max() <= 0.0 and seen.shares.max() > 0.0:
        _forget(seen)
        return
    rose, where, changed = 0, -1, False
    for i in range(nodes):
        cpu, memory = state[2 * i] - seen.shares[2 * i], state[2 * i + 1] - seen.shares[2 * i + 1]
        if max(cpu, memory) > _NOTHING:
            rose, where, changed = rose + 1, i, True
        elif min(cpu, memory) < -_NOTHING:
            seen.refused[i, :] = np.inf
            changed = True
    if not changed:
        return
    seen.changes[0] += 1
    lives = _LIVES_PER_NODE * nodes + _LIVES
    for i in range(nodes):
        if seen.changes[0] - seen.since[i] > lives:
            seen.refused[i, :] = np.inf
    named = seen.named[0]
    if named < 0 or rose != 1:
        return
    if where != named:
        _note_refusal(seen, named)
    elif _as_much(seen.task, seen.refused[named]):
        seen.refused[named, :] = np.inf


@compiled
def _forget(seen: ShownNodes) -> None:
    """All of it: a cluster where nothing runs any more is a new one, and two runs over one are the same."""
    seen.named[0] = -1
    seen.refused[:] = np.inf
    seen.since[:] = 0
    seen.changes[0] = 0


@compiled
def _note_refusal(seen: ShownNodes, node: int) -> None:
    """The least of what it refuses; of two that cannot be compared, the later."""
    if not _as_much(seen.task, seen.refused[node]):
        seen.refused[node, :] = seen.task
    seen.since[node] = seen.changes[0]


@compiled
def _as_much(task: F64, refused: F64) -> bool:
    return task[0] >= refused[0] and task[1] >= refused[1]


@compiled
def fill_welcome(seen: ShownNodes, state: F64, mask: Bool) -> bool:
    """Whether the mask says anything: bool[2n + 2], False for nodes that will refuse the task."""
    nodes = seen.refused.shape[0]
    task = np.zeros(2)
    if state.shape[0] > 2 * nodes:
        task[:] = state[2 * nodes :]
    mask[:] = True
    refusing = 0
    for i in range(nodes):
        if _as_much(task, seen.refused[i]):
            refusing += 1
            mask[i] = mask[nodes + i] = False
    return 0 < refusing < nodes


@compiled
def note_answer(seen: ShownNodes, state: F64, action: int) -> None:
    """What was answered to this state."""
    nodes = seen.refused.shape[0]
    seen.shares[:] = state[: 2 * nodes]
    if state.shape[0] > 2 * nodes:
        seen.task[:] = state[2 * nodes :]
    else:
        seen.task[:] = 0.0
    seen.named[0] = action % nodes if action < 2 * nodes else -1


class RefusalMemory:
    """Of many clients, each with a cluster of its own; the one that was silent for longest is forgotten.

    May be called from many threads at once.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._most = max(1, _MOST_BYTES // (48 * nodes + 1024))
        self._clients: OrderedDict[str, ShownNodes] = OrderedDict()
        self._lock = threading.Lock()

    def welcome(self, client: str, state: F64) -> Bool | None:
        """bool[2n + 2]: who will not refuse the task, as far as is known; None where nothing is."""
        mask = np.empty(2 * self._nodes + 2, dtype=np.bool_)
        with self._lock:
            seen = self._clients.get(client)
            if seen is None:
                return None
            notice(seen, state)
            return mask if fill_welcome(seen, state, mask) else None

    def refuses(self, client: str, node: int) -> None:
        """That this node refused the task that was answered last."""
        with self._lock:
            seen = self._clients.get(client)
            if seen is not None:
                _note_refusal(seen, node)

    def answered(self, client: str, state: F64, action: int) -> None:
        """Remember the answer, to see what becomes of it."""
        with self._lock:
            seen = self._clients.get(client)
            if seen is None:
                seen = self._clients[client] = new_seen(self._nodes)
                if len(self._clients) > self._most:
                    self._clients.popitem(last=False)
            self._clients.move_to_end(client)
            note_answer(seen, state, action)


def warm_up_refusals(state: F64, nodes: int) -> None:
    """Compile what this needs for such a state, before anybody waits for it."""
    remembered = RefusalMemory(nodes)
    remembered.answered("", state, 0)
    remembered.welcome("", state)
