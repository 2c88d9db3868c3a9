"""What a planner knows of one run: the demand that it saw, the futures it played, what they taught it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.structs import private
from proreus.policies.planner import Effort
from proreus.worlds.pods.policies.planner.futures import Future, begin_future, play_on
from proreus.worlds.pods.policies.planner.worth import ahead, sums_of, worth_of
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.state.columns import Cluster
from proreus.worlds.pods.state.compile import new_scratch
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.state.observation import PodObservation

_REMEMBERED = 2_000
"""Pods whose demand the futures are drawn from: the latest."""
_LEAST_SEEN = 30
"""Pods before the first plan: fewer say little of what comes."""
EVERY = 0.05
"""A plan holds until so much of the capacity was asked for; the next one follows."""
_BEYOND = 0.3
"""A future lasts until what is idle was asked for, and so much of the capacity more: gaps fill late."""
_FORGET = 0.5
"""What the futures of a plan count for in the next one."""
_MOST_ARRIVALS = 20_000
"""Of a future, however large the cluster: so that neither time nor memory has no end."""
_SLICE = 32
"""Arrivals between two looks at the clock."""


@dataclass
class Plan:
    """The memory of one run."""

    effort: Effort
    random: np.random.Generator
    clock: Callable[[], float] = time.perf_counter
    worth: F64 | None = None
    """float64[LEVELS], see `worth.worth_of`; None before the first future has ended."""
    futures: list[F64] = field(default_factory=list)
    """What each future of this plan taught, see `worth.sums_of`."""
    _former: F64 = field(default_factory=lambda: np.zeros((2, LEVELS)))
    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    _asked: float = 0.0
    _playing: Iterator[None] | None = None

    def see(self, observation: PodObservation) -> None:
        """Remember what the pod asks for, once however often it is tried; a new plan where one is due."""
        pod, c, classes = observation.pod, observation.pod_class, observation.cluster.classes
        known = (c, int(classes.epoch[c]))
        if self._seen.get(pod) == known:
            return
        self._seen.pop(pod, None)
        self._seen[pod] = known
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._asked += float(classes.gpu_num[c] * classes.gpu_milli[c]) / _capacity(observation.cluster)
        if len(self._seen) >= _LEAST_SEEN and self._is_due():
            self._begin()

    def _is_due(self) -> bool:
        if self._playing is not None and not self.futures:
            return False  # the first future of a plan comes to its end, however late that is
        return self._asked >= EVERY or (self.worth is None and self._playing is None and self._asked > 0)

    def _begin(self) -> None:
        """Plan anew; what the former plan taught counts on, but less."""
        self._former = _FORGET * (self._former + sum(self.futures))
        self.futures, self._asked = [], 0.0
        self._playing = iter(())

    def think(self, observation: PodObservation, rule: PodRule, since: float) -> None:
        """Play futures until the plan rests on enough of them, or until the deadline of a decision that
        began at `since`."""
        for _ in self.effort.steps(self.clock, since):
            if self._playing is None:
                return
            self._step(observation, rule)

    def _step(self, observation: PodObservation, rule: PodRule) -> None:
        assert self._playing is not None, "asked for only where a plan is due"
        if next(self._playing, self) is self:  # that future is over
            if len(self.futures) >= self.effort.futures:
                self._playing = None
                return
            self._playing = self._play(observation, rule)

    def _play(self, observation: PodObservation, rule: PodRule) -> Iterator[None]:
        """One future from now on, in slices; what it taught counts at its end."""
        cluster, state = observation.cluster, observation.state
        arrivals = self._draw(cluster, state.gpu_left)
        if arrivals.size == 0:
            self.futures.append(np.zeros((2, LEVELS)))
            return
        future = begin_future(cluster, state, rule, arrivals)
        own = private(cluster)
        scratch = new_scratch(own)
        yield
        while not play_on(own, scratch, future, _SLICE):
            yield
        self._learn(future)

    def _learn(self, future: Future) -> None:
        noted = int(future.at[1])
        visits = (future.place[:noted], future.left[:noted], future.when[:noted])
        self.futures.append(sums_of(visits, future.state.gpu_left.ravel()))
        self.worth = worth_of(self._former + sum(self.futures))

    def _draw(self, cluster: Cluster, gpu_left: I64) -> I64:
        """Classes of the pods to come: drawn from those seen, as many as fill what is idle and more."""
        epochs, capacity = cluster.classes.epoch, _capacity(cluster)
        seen = np.array([c for c, epoch in self._seen.values() if epochs[c] == epoch], dtype=np.int64)
        if seen.size == 0:
            return seen
        usual = float((cluster.classes.gpu_num * cluster.classes.gpu_milli)[seen].mean())
        if usual == 0.0:
            return seen[:0]
        wanted = (float(gpu_left.sum()) + _BEYOND * capacity) / usual
        return self.random.choice(seen, min(int(wanted), _MOST_ARRIVALS))

    def why_none(self) -> str:
        """Why nothing is known of the worth of gaps yet."""
        if (seen := len(self._seen)) < _LEAST_SEEN:
            return f"pods seen so far: {seen}; futures are drawn from {_LEAST_SEEN} on"
        if self._playing is not None:
            return (
                f"the first future takes more than the {self.effort.deadline:g} ms of a decision, and goes on"
            )
        return "no pods to come could be drawn from those seen"

    def ahead(self, ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
        """See `worth.ahead`, over the futures of this plan."""
        assert self.worth is not None, "asked for only where a future was played"
        return ahead(self.futures, self.worth, ours, theirs)


def _capacity(cluster: Cluster) -> float:
    return max(float(cluster.nodes.gpu_count.sum()) * 1000.0, 1.0)
