"""Lanes over any simulation, decision by decision: for learners what `step_by_step` is for policies.

A world without kernels of its own trains on these. An episode is its seed and what was done in it, so that
is all that is saved: played again it stands where it stood, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.contract.scenario import Scenario
from proreus.contract.simulation import Simulation
from proreus.kernels.arrays import F32, I64
from proreus.model.errors import IllegalDecision, InputError, UsageError

Encode = Callable[[Any], tuple[F32, F32]]
"""From an observation to (rows [R, F], context [G])."""


class EpisodeLanes:
    """Runs of a scenario side by side; what `apply` returns is the reward."""

    def __init__(self, scenario: Scenario, count: int, seeds: int, encode: Encode, encoding: str) -> None:
        """`scenario`: of the part to learn from, whose work is drawn with the seeds 0 to `seeds` - 1."""
        if count < 1:
            raise UsageError("a batch needs at least one lane")
        self.encoding = encoding
        self._scenario, self._seeds, self._encode = scenario, seeds, encode
        self._begun = np.zeros((count, 3), dtype=np.int64)
        """Of each lane: its seed, its number among those of that seed, the number of its episode."""
        self._lanes = [_Lane() for _ in range(count)]

    def __len__(self) -> int:
        return len(self._lanes)

    def reset(self, seed: int) -> Choices:
        """The first episode of every lane."""
        for lane in range(len(self)):
            self._begun[lane] = seed, lane, 0
            self._begin(lane)
        return self._choices()

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """The first episode of some lanes, each as the only one of its seed."""
        for lane, seed in seeds.items():
            self._begun[lane] = seed, 0, 0
            self._begin(lane)
        return self._choices()

    def step(self, chosen: I64) -> Steps:
        """Take one action in every lane; an illegal one changes nothing in any."""
        actions = [int(action) for action in chosen]
        for lane, action in enumerate(actions):
            legal = self._lanes[lane].seen.action_mask()
            if not (0 <= action < legal.size and legal[action]):
                raise IllegalDecision(f"lane {lane}: action {action} is not legal")
        worth, ended = np.zeros(len(self)), np.zeros(len(self), dtype=np.bool_)
        for lane, action in enumerate(actions):
            worth[lane] = self._lanes[lane].take(action)
            ended[lane] = self._lanes[lane].seen is None
            if ended[lane]:
                self._begun[lane, 2] += 1
                self._begin(lane)
        return Steps(self._choices(), worth, ended, worth)

    def capture(self) -> Arrays:
        """Which episodes, and what was done in them."""
        longest = max(len(lane.taken) for lane in self._lanes)
        taken = np.full((len(self), longest), -1, dtype=np.int64)
        for place, lane in enumerate(self._lanes):
            taken[place, : len(lane.taken)] = lane.taken
        return {"begun": self._begun.copy(), "taken": taken}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """The same episodes, played again up to where they stood."""
        begun, taken = np.asarray(saved["begun"]), np.asarray(saved["taken"])
        if begun.shape != self._begun.shape or len(taken) != len(self):
            raise InputError(f"the saved episodes do not fit {len(self)} lanes")
        self._begun = begun.copy()
        for lane in range(len(self)):
            self._begin(lane)
            for action in taken[lane][taken[lane] >= 0].tolist():
                self._lanes[lane].take(action)
        return self._choices()

    def _begin(self, lane: int) -> None:
        draw = np.random.default_rng(self._begun[lane].tolist())
        # A run that ends without a decision teaches nothing; another one is drawn.
        for seed in draw.integers(self._seeds, size=_TRIES).tolist():
            if self._lanes[lane].begin(self._scenario.start(self._scenario.load(seed), seed)):
                return
        raise UsageError(f"{self._scenario.name}: none of {_TRIES} runs leads to a decision")

    def _choices(self) -> Choices:
        rows, context = zip(*(self._encode(lane.seen) for lane in self._lanes), strict=True)
        legal = [lane.seen.action_mask() for lane in self._lanes]
        return Choices(np.stack(rows), np.stack(context), np.stack(legal))


_TRIES = 100


class _Lane:
    def __init__(self) -> None:
        self._run: Simulation[Any, Any]
        self.seen: Any = None
        self.taken: list[int] = []

    def begin(self, run: Simulation[Any, Any]) -> bool:
        self._run, self.taken, self.seen = run, [], run.next_decision()
        return self.seen is not None

    def take(self, action: int) -> float:
        worth = self._run.apply(action)
        if worth is None:
            raise UsageError("this world does not say what a decision is worth: it cannot be learned so")
        self.taken.append(action)
        self.seen = self._run.next_decision()
        return worth
