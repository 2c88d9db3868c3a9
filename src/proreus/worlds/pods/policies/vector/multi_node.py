"""Several nodes named for one task, to a client that asks once for every node.

The k8s simulator's plugin asks once for each node that a task may go to, with the same vector, in the order
of the nodes, sixteen questions at a time; and it scores the node of a question by the answer to that one: 100
where it is named for the task, 50 where it is named for a preemption, which is not carried out. So different
answers to the questions about one state name several nodes: first choices, and others that stand by for the
case that all of them refuse. Among equals the simulator takes the node with most to spare.

Which question is about which node is not told. But how many questions there are for such a task is known from
the one before, and nodes that refuse it are not asked about: that gives the place of each node among the
questions, closely enough for answers that are `_APART` questions apart.

Who asks once per task gets one answer, and so does everybody until a named node has refused. Then two nodes
that took tasks are named, one of them around its place alone: if it gets the task, twice, the questions come
in the order of the nodes; if not, there is one answer again, as where tasks go to nodes that nobody named.
From then on nodes that took tasks stand by. If the model's choices are refused about as often as nodes drawn
blindly would be, it does not know these nodes: then the first choices are nodes without a task, so many that
all of them hardly refuse. Where nothing runs any more all of this is forgotten: two runs are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I32, I64, Bool

_NOTHING = 1e-12
"""Shares that differ by less are the same."""
_FEWEST = 8
"""Who asks less often about a state asks for a task, and not for its nodes."""
_APART, _FAR_APART = 32, 96
"""Questions between two named nodes, at least; more while the model is trusted."""
_BLIND = 3.0
"""Where the model is so likely (a logarithm of odds) to name nodes blindly, they are chosen otherwise."""
_SURE = -3.0
_KNOWING = 3.0
"""A model that knows the nodes is refused so many times less often than a blind one."""
_HARDLY = 0.1
"""The chance that all first choices refuse."""
_MOST_FIRST, _BEST_STANDING_BY, _STANDING_BY = 6, 2, 6
_TRIALS = 2
"""So many trials show that the questions come in the order of the nodes, or that they do not."""
_KINDS = 64
"""Kinds of tasks whose number of questions is remembered."""


class Named(NamedTuple):
    """Which answer belongs to which questions about one state."""

    nodes: I64  # in the order of their questions
    ends: I64  # the first question that is not the node's any more; none for the last
    first: frozenset[int]
    """Those that are named for the task; the others stand by."""
    cluster: int
    trial: bool = False
    """Whether this is to find out if the questions come in the order of the nodes."""

    def answer(self, number: int) -> int:
        """The action for the question of this number, counted from 0."""
        node = int(self.nodes[int(np.searchsorted(self.ends, number, side="right"))])
        return node if node in self.first else self.cluster + node


class Outcomes:
    """What became of the answers to one client with a cluster of n nodes. Not for several threads at once."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._state = np.zeros(0)
        self._questions = 0
        self._own = -1
        self._named: Named | None = None
        self._forget()

    def _forget(self) -> None:
        self._questions_of: dict[tuple[float, ...], int] = {}
        self._usual = 0  # questions about the state before this one; 0: not one for each node
        self._tasks = np.zeros(self._nodes, dtype=np.int32)  # on each node
        self._lost = np.zeros(self._nodes, dtype=np.int32)  # times that another first choice got the task
        self._best = np.zeros(self._nodes, dtype=np.bool_)  # got a task that others could have had
        self._blind = 0.0
        self._tried = self._missed = 0
        self._trials = [0, 0]  # failed, passed
        self._refusing: list[int] = []

    def ask(self, state: F64) -> int:
        """The number of this question among those about this very state, from 0 on."""
        if self.is_about(state):
            self._questions += 1
            return self._questions - 1
        if len(state) == len(self._state):
            self._notice(state)
        self._state = state.copy()
        self._questions, self._own, self._named = 1, -1, None
        return 0

    def is_about(self, state: F64) -> bool:
        """Whether this is the state of the last question."""
        return len(state) == len(self._state) and bool((state == self._state).all())

    def pass_over(self) -> None:
        """The next state shows nothing of what was answered here."""
        self._state, self._questions = np.zeros(0), 0

    def name_one(self, action: int) -> None:
        """The model's own answer to all questions about this state."""
        self._own = action % self._nodes if action < 2 * self._nodes else -1

    def take_refusing(self) -> list[int]:
        """Nodes that turned out to refuse the task of the state before; told once."""
        refusing, self._refusing = self._refusing, []
        return refusing

    @property
    def names_several(self) -> bool:
        """Whether several nodes should be named for this state."""
        return self._usual > 0 and self._blind > 0.0 and not self._in_another_order

    @property
    def _in_another_order(self) -> bool:
        return self._trials[0] >= _TRIALS or (self._missed >= 3 and 5 * self._missed > self._tried)

    def _notice(self, state: F64) -> None:
        shares = 2 * self._nodes
        if state[:shares].max() <= 0.0:
            self._forget()
            return
        self._usual = self._questions if _FEWEST <= self._questions <= self._nodes else 0
        if not self._usual:
            return
        if len(self._questions_of) >= _KINDS:
            self._questions_of.clear()
        self._questions_of[tuple(self._state[shares:].tolist())] = self._usual
        change = (state[:shares] - self._state[:shares]).reshape(-1, 2)
        fell = change.min(axis=1) < -_NOTHING
        self._tasks[fell] = np.maximum(self._tasks[fell] - 1, 1)
        self._tasks[state[:shares].reshape(-1, 2).max(axis=1) <= 0.0] = 0
        rose = np.flatnonzero(change.max(axis=1) > _NOTHING)
        if len(rose) == 1:
            self._learn(int(rose[0]))
        elif len(rose) > 1:  # others place tasks too, or the nodes changed places
            self._best[:] = False
            self._lost[:] = 0

    def _learn(self, where: int) -> None:
        """From where the last task went."""
        self._tasks[where] += 1
        named = self._named
        if named is None:
            if self._own >= 0:
                self._doubt(refused=where != self._own)
                self._best[where] |= where != self._own  # of all nodes it had most to spare
            return
        if named.trial:
            self._trials[int(where in named.first)] += 1
            return
        self._tried += 1
        if where not in named.nodes:
            self._missed += 1
            self._best[where] = True
            if 5 * self._missed <= self._tried:
                self._refusing += named.nodes.tolist()
            return
        got_it = where in named.first
        if self._own >= 0:
            self._doubt(refused=not got_it)
        if got_it:
            self._lost[[node for node in named.first if node != where]] += 1
        else:
            self._refusing += sorted(named.first)
        rivals = len(named.first) if got_it else len(named.nodes) - len(named.first)
        self._best[where] |= rivals > 1

    def _doubt(self, *, refused: bool) -> None:
        """How much likelier it has become that the model does not know these nodes."""
        blindly = 1.0 - self._usual / self._nodes
        if refused:
            self._blind += math.log(_KNOWING)
        elif blindly < 1.0:
            self._blind += math.log((1.0 - blindly) / (1.0 - blindly / _KNOWING))
        self._blind = max(self._blind, _SURE)

    def name_several(self, welcome: Bool | None, own: int, bids: F64) -> Named | None:
        """For this state; None where nothing could stand by.

        own: the model's action; bids: float64[2n + 2], how likely it is to take each.
        """
        nodes = self._nodes
        if own >= 2 * nodes:
            return None
        allowed = np.ones(nodes, dtype=np.bool_) if welcome is None else welcome[:nodes]
        took = allowed & (self._tasks > 0)
        unknown = allowed & ~took
        if not took.any() or not unknown.any():
            return None
        questions = self._questions_of.get(tuple(self._state[2 * nodes :].tolist()), 0) or self._usual
        takes = min(1.0, max(0.0, (questions - int(took.sum())) / int(unknown.sum())))
        place = np.cumsum(np.where(took, 1.0, np.where(unknown, takes, 0.0)))
        if self._trials[1] < _TRIALS:
            self._named = self._trial(self._ordered(took, self._tasks), place)
            return self._named
        blind = self._blind > _BLIND
        first = self._first_choices(unknown, bids) if blind else np.array([own % nodes])
        guard = self._ordered(took & self._best & (self._tasks < 2), self._tasks)[:1]
        if not blind or self._lost[first].min() > 0:
            guard = guard[:0]
        best = self._ordered(took & self._best, self._tasks)
        fewest = self._ordered(took & (self._tasks <= self._tasks[took].min()), -bids[:nodes])
        most = _MOST_FIRST if len(guard) else self._enough(takes) if blind else 1
        wanted = ((guard, 1), (first, most), (best, _BEST_STANDING_BY), (fewest, _STANDING_BY))
        groups = list(_spread(wanted, place, _APART if blind else _FAR_APART))
        chosen = np.sort(np.array([node for group in groups for node in group], dtype=np.int64))
        if len(chosen) < 2:
            return None
        ends = np.ceil((place[chosen][1:] + place[chosen][:-1]) / 2).astype(np.int64)
        if blind:
            self._own = -1
        self._named = Named(chosen, ends, frozenset(groups[0] + groups[1]), nodes)
        return self._named

    def _trial(self, took: I64, place: F64) -> Named | None:
        """A node that surely takes the task, named around its place alone; another stands by."""
        node = took[0]
        others = took[np.abs(place[took] - place[node]) >= _FAR_APART]
        if not len(others):
            return None
        ends = np.array([place[node] - _APART, place[node] + _APART]).astype(np.int64)
        nodes = np.array([others[0], node, others[0]])
        return Named(nodes, ends, frozenset((int(node),)), self._nodes, trial=True)

    def _first_choices(self, unknown: Bool, bids: F64) -> I64:
        """Nodes without a task: who lost least, then by the model's bids."""
        nodes = np.flatnonzero(unknown)
        return nodes[np.lexsort((-bids[nodes], self._lost[nodes]))]

    @staticmethod
    def _ordered(which: Bool, by: F64 | I32) -> I64:
        nodes = np.flatnonzero(which)
        return nodes[np.argsort(by[nodes], kind="stable")]

    @staticmethod
    def _enough(takes: float) -> int:
        """So many first choices that all of them hardly refuse."""
        return min(_MOST_FIRST, math.ceil(math.log(_HARDLY) / math.log(1.0 - min(max(takes, 0.2), 0.9))))


def _spread(wanted: Iterable[tuple[I64, int]], place: F64, apart: int) -> Iterable[list[int]]:
    """Of each group of nodes, in their order of preference, so many that no two named ones are too close."""
    free = np.ones(len(place), dtype=np.bool_)
    for group, most in wanted:
        named: list[int] = []
        left = group[free[group]]
        while len(left) and len(named) < most:
            named.append(int(left[0]))
            free &= np.abs(place - place[left[0]]) >= apart
            left = group[free[group]]
        yield named
