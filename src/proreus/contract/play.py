"""How any policy plays any simulation: decision by decision, and the picture of such a run.

`step_by_step` is the whole of it for a world without kernels of its own. A world that has them plays its
rules faster and comes back here for strangers, for --watch and for pictures; both make the same decisions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from proreus.contract.heatmap import heat_map
from proreus.contract.replay import Replay, replay_of, spaced
from proreus.contract.scenario import Scenario
from proreus.contract.simulation import Look, Outcome, Pictured, Simulation, Timed
from proreus.contract.world import Hear, Picture, Played, Recording
from proreus.model.errors import IllegalDecision
from proreus.policies.protocol import Policy, remark_of

RATE = "decisions_per_s"
"""The measure that `step_by_step` adds: how fast the policy and the world were together."""
_OFTEN = 2_000
_MOMENTS = 256
_FRAMES = 120
_COLUMNS = 288

AnySimulation = Simulation[Any, Any]
AnyPolicy = Policy[Any, Any]


def step(simulation: AnySimulation, policy: AnyPolicy) -> bool:
    """One decision; false: the run is over. What the rules forbid is told as the policy's error."""
    observation = simulation.next_decision()
    if observation is None:
        return False
    decision = policy.decide(observation)
    try:
        simulation.apply(decision)
    except IllegalDecision as error:
        raise IllegalDecision(f"policy {policy.name}: {error}") from error
    return True


def walk(simulation: AnySimulation, policy: AnyPolicy, hear: Hear | None = None) -> tuple[int, float]:
    """To the end of the run: (decisions, seconds)."""
    decided, began = 0, time.perf_counter()
    while step(simulation, policy):
        decided += 1
        if hear is not None and decided % _OFTEN == 0:
            hear(decided, decided)
    return decided, time.perf_counter() - began


class Again:
    """Makes the decisions of an earlier run once more: a picture costs no second plan."""

    def __init__(self, name: str, decisions: Iterable[Any]) -> None:
        self.name = name
        self._decisions = list(decisions)
        self._left = iter(self._decisions)

    def decide(self, observation: Any, /) -> Any:
        return next(self._left)

    def fresh(self, seed: int) -> Again:
        """From the first one on."""
        return Again(self.name, self._decisions)


class NotedDecisions:
    """A policy whose decisions are kept."""

    def __init__(self, policy: AnyPolicy) -> None:
        self.name, self._policy = policy.name, policy
        self.decisions: list[Any] = []

    def decide(self, observation: Any, /) -> Any:
        self.decisions.append(self._policy.decide(observation))
        return self.decisions[-1]

    def fresh(self, seed: int) -> NotedDecisions:
        """Without any."""
        return NotedDecisions(self._policy.fresh(seed))

    @property
    def remark(self) -> str:
        return remark_of(self._policy)


def for_two_runs(
    policy: AnyPolicy, seed: int, kernels: type | None = None
) -> tuple[AnyPolicy, Callable[[], AnyPolicy]]:
    """(the policy for a run, what makes one that plays the same run again, for its picture).

    A policy that is not of the type which `kernels` play is asked once: it may be slow, or not remember.
    """
    fresh = policy.fresh(seed)
    if kernels is not None and isinstance(fresh, kernels):
        return fresh, lambda: policy.fresh(seed)
    noted = NotedDecisions(fresh)
    return noted, lambda: Again(policy.name, noted.decisions)


def step_by_step(
    scenario: Scenario,
    work: Any,
    policy: AnyPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """A run of the policy over the work."""
    simulation, (first, again) = scenario.start(work, seed), for_two_runs(policy, seed)
    decided, seconds = walk(simulation, first, hear)
    outcome = with_measure(simulation.outcome(), RATE, decided / max(seconds, 1e-9))
    drawn = recorded(scenario.start(work, seed), again()) if picture else None
    return Played(outcome, drawn, remark_of(first))


def with_measure(outcome: Outcome, name: str, value: float) -> Outcome:
    """The outcome with one more measure."""
    return replace(outcome, measures={**outcome.measures, name: value})


Advance = Callable[[int], object]
"""Makes up to so many decisions, faster than step by step."""


def recorded(simulation: AnySimulation, policy: AnyPolicy, advance: Advance | None = None) -> Picture | None:
    """A run with the policy, looked at as it goes; None where the simulation cannot be drawn."""
    if not isinstance(simulation, Pictured):
        return None
    looks = looks_at(simulation, policy, advance)
    measured = [look for look in looks if look.series] or looks  # a world may have no curves at all
    times = np.array([look.time for look in measured])
    series = {key: np.array([look.series[key] for look in measured]) for key in looks[-1].series}
    shown = spaced(len(measured), _COLUMNS)
    use = np.array([measured[at].use for at in shown], dtype=np.float32)
    return Picture(
        Recording(times, series),
        heat_map(use, times[shown]),
        simulation.facts(),
        replay_of_looks(simulation, looks),
        simulation.gantt() if isinstance(simulation, Timed) else None,
    )


def looks_at(simulation: Any, policy: AnyPolicy, advance: Advance | None = None) -> list[Look]:
    """The moments of a run; where a frame shows the last move alone, some hundred of them."""
    every_move = simulation.stage().all_moves
    looks, stride = [look for look in (simulation.look(),) if look is not None], 1
    while True:
        if advance is None:
            for _ in range(stride - 1):
                step(simulation, policy)
        elif stride > 1:
            advance(stride - 1)
        going = step(simulation, policy)
        look = simulation.look()
        # The end is a moment of its own only where something happened since the last decision.
        if look is not None and (going or (look.time, look.count) > (looks[-1].time, looks[-1].count)):
            looks.append(look)
        if not going:
            return looks
        if not every_move and len(looks) > 2 * _MOMENTS:
            # Every other moment is dropped and the stride doubled: any run ends with enough and not too many.
            looks, stride = looks[::2], 2 * stride


def replay_of_looks(simulation: Pictured, looks: list[Look]) -> Replay:
    """The looks as frames."""
    stage = simulation.stage()
    if not stage.all_moves:
        looks = [looks[at] for at in spaced(len(looks), _FRAMES)]

    def tell(before: int, at: int) -> str:
        return simulation.told(looks[before] if before >= 0 else None, looks[at])

    times = np.array([look.time for look in looks])
    seconds = times - times[0] if stage.clock else None
    return replay_of(stage, [look.levels for look in looks], [look.moves for look in looks], tell, seconds)
