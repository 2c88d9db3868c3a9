"""What a teacher shows: the nodes that it had to choose from, and the one that it chose.

D decisions, K candidates of each, F pair features. Candidate 0 is the teacher's choice. Of many alike (nodes
that differ in nothing but their place in the order) one stands for all, and of many others those that the
pupil likes best and some by lot: what the pupil already scores low teaches it nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.kernels.arrays import F32, F64, I64
from proreus.model.decision import Decision, Place
from proreus.worlds.pods.encoding.pair import DEVICE_LEFT, LOT, ORDER, PAIR_FEATURES, POD_KINDS, pod_kind
from proreus.worlds.pods.encoding.rows import Encoder, copy_rows, gather, new_encoder, row_devices
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.rules.policy import LinearScorer
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.devices import LEVEL
from proreus.worlds.pods.state.observation import PodObservation

_FEATURES = len(PAIR_FEATURES)
_TELLING = [f for f in range(_FEATURES) if f not in (LOT, ORDER)]
_LOOKS = np.random.default_rng(0).normal(size=len(_TELLING))
"""A direction in which rows that differ are apart: one number in place of 26 to compare."""
_DIGITS = 5
_BY_LOT = 0.25
"""Share of the candidates that are drawn."""
SHARES_GPU = POD_KINDS.index("shares_gpu")


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Choices of a teacher."""

    rows: F32
    """[D, K, F]"""
    count: I64
    """[D] how many candidates there are"""
    kind: I64
    """[D] of the pod: a place in POD_KINDS"""
    milli: I64
    """[D] that the pod asks for on a shared device; 0: it shares none"""

    def __len__(self) -> int:
        return len(self.count)

    @classmethod
    def nothing(cls, candidates: int) -> Demonstrations:
        none = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, candidates, _FEATURES), dtype=np.float32), none, none, none)

    def with_more(self, other: Demonstrations) -> Demonstrations:
        """Both, one after the other."""
        return Demonstrations(
            **{name: np.concatenate([array, getattr(other, name)]) for name, array in self.arrays()}
        )

    def some(self, places: I64) -> Demonstrations:
        return Demonstrations(**{name: array[places] for name, array in self.arrays()})

    def arrays(self) -> Iterator[tuple[str, Any]]:
        yield from vars(self).items()

    def levels(self) -> tuple[I64, I64]:
        """[D, K] of the shared device of each candidate, before and after the pod is there."""
        before, after = levels_of(self.rows, self.milli[:, None])
        shared = self.milli[:, None] > 0
        return np.where(shared, before, 0), np.where(shared, after, 0)


def levels_of(rows: F32, milli: I64 | int) -> tuple[I64, I64]:
    """Levels of the shared device of each row, before and after a pod that asks for `milli` is there."""
    after = np.rint(1000.0 * rows[..., DEVICE_LEFT].astype(np.float64)).astype(np.int64)
    return np.minimum(after + milli, 1000) // LEVEL, np.clip(after, 0, 1000) // LEVEL


@dataclass(frozen=True)
class Taking:
    """How much of a run is noted."""

    share: float
    """The chance of a decision to be noted."""
    candidates: int
    """K"""


class DemonstrationRecorder:
    """Notes what a teacher chooses in one run, as candidates for a pupil."""

    def __init__(
        self, world: PodsWorld, pupil: LinearScorer, taking: Taking, random: np.random.Generator
    ) -> None:
        self._encoder: Encoder = new_encoder(world.compiled)
        nodes = len(world.compiled.workload.nodes)
        self._nodes = np.zeros(nodes, dtype=np.int64)
        self._rows = np.zeros((nodes, _FEATURES), dtype=np.float32)
        self._weights: F64 = pupil.weights_for(world.compiled)
        self._gaps: F64 = pupil.gaps_for(world.compiled)
        self._share, self._candidates, self._random = taking.share, taking.candidates, random
        self._noted: list[tuple[F32, int, int, int]] = []

    def note(self, observation: PodObservation, decision: Decision) -> None:
        """Record a choice among several places; no other kind of decision is scored by features."""
        if not isinstance(decision, Place) or self._random.random() >= self._share:
            return
        cluster, c = observation.cluster, observation.pod_class
        count, preempting = gather(
            cluster, observation.state, observation.scratch, self._encoder, c, self._nodes
        )
        if count < 2 or preempting or not self._describes(observation, decision):
            return
        copy_rows(self._encoder, c, self._nodes, count, self._rows)
        chosen = int(np.searchsorted(self._nodes[:count], decision.node))
        kind = int(pod_kind(cluster, c))
        milli = int(cluster.classes.gpu_milli[c]) if kind == SHARES_GPU else 0
        others = self._others(chosen, self._scores(count, kind, milli))
        if others.size == 0:
            return
        rows = np.zeros((self._candidates, _FEATURES), dtype=np.float32)
        rows[0], rows[1 : 1 + others.size] = self._rows[chosen], self._rows[others]
        self._noted.append((rows, 1 + others.size, kind, milli))

    def _describes(self, observation: PodObservation, decision: Place) -> bool:
        """Whether the features are of devices like those that the teacher takes on that node."""
        ours = row_devices(self._encoder, observation.pod_class, decision.node)
        left = observation.state.gpu_left[decision.node]
        return _left_on(left, ours) == _left_on(left, decision.devices)

    def _scores(self, count: int, kind: int, milli: int) -> F64:
        """The pupil's, of the first rows."""
        scores: F64 = self._rows[:count] @ self._weights[kind]
        if self._gaps.size and milli > 0:
            before, after = levels_of(self._rows[:count], milli)
            scores += self._gaps[after] - self._gaps[before]
        return scores

    def _others(self, chosen: int, scores: F64) -> I64:
        """Places of the candidates beside the chosen one, at most K - 1, the pupil's best first."""
        looks = np.round(self._rows[: scores.size, _TELLING].astype(np.float64) @ _LOOKS, _DIGITS)
        ranked = np.argsort(-scores, kind="stable")
        _, first = np.unique(looks[ranked], return_index=True)
        first.sort()
        others: I64 = ranked[first]
        others = others[looks[others] != looks[chosen]]
        most = self._candidates - 1
        if others.size <= most:
            return others
        best = most - int(_BY_LOT * most)
        drawn = self._random.choice(others[best:], most - best, replace=False)
        return np.concatenate([others[:best], drawn])

    def shown(self) -> Demonstrations:
        """What was noted."""
        if not self._noted:
            return Demonstrations.nothing(self._candidates)
        rows, *others = zip(*self._noted, strict=True)
        return Demonstrations(np.stack(rows), *(np.array(column, dtype=np.int64) for column in others))


def _left_on(left: I64, devices: int) -> list[int]:
    return sorted(int(milli) for d, milli in enumerate(left) if devices >> d & 1)


def show(
    world: PodsWorld, recorder: DemonstrationRecorder, teacher: PodPolicy, player: PodPolicy | None
) -> Demonstrations:
    """Play a run to its end, by the teacher, or by `player` while the teacher says what it would do."""
    while (observation := world.next_decision()) is not None:
        taught = teacher.decide(observation)
        made = taught if player is None else player.decide(observation)
        recorder.note(observation, taught)
        world.apply(made)
    return recorder.shown()
