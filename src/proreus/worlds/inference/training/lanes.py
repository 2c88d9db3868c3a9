"""Runs of a service side by side, as learners that score actions see them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from proreus.contract.episodes import EpisodeLanes
from proreus.worlds.inference.encoding import actions, residual
from proreus.worlds.inference.encoding.residual import OffsetChoices
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.policies.steered_rule import SteeredRule, first_rule
from proreus.worlds.inference.scenarios import InferenceScenario, parse
from proreus.worlds.inference.simulation.outcome import AS_MANY_AGAIN
from proreus.worlds.inference.simulation.world import InferenceRun

_SEEDS = 100_000
_STEERED_SEEDS = 64
"""Episodes to learn from: what the rule comes to in them is found once."""


def lanes_of(scenario: InferenceScenario, count: int) -> EpisodeLanes:
    """Episodes of the training part; what an interval is worth the scenario's objectives say."""
    return EpisodeLanes(scenario.of_part("train"), count, _SEEDS, actions.encode_actions, actions.VERSION)


def steered_lanes_of(scenario: InferenceScenario, count: int) -> EpisodeLanes:
    """The same, over shifts of a rule's targets; an interval is worth what it costs less than the rule's."""
    steered: Any = SteeredScenario(scenario.of_part("train"))
    return EpisodeLanes(steered, count, _STEERED_SEEDS, _encoded, residual.VERSION)


def _encoded(choices: OffsetChoices) -> tuple[Any, Any]:
    return choices.rows, choices.context


@dataclass(frozen=True)
class SteeredScenario:
    """A scenario as lanes of shifts see it."""

    scenario: InferenceScenario

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self.scenario.name

    def load(self, seed: int) -> RequestTrace:
        """The requests of that seed."""
        return self.scenario.load(seed)

    def start(self, work: RequestTrace, seed: int) -> SteeredRun:
        """A run whose rule is steered."""
        return SteeredRun(self.scenario.start(work, seed), _costs(self.scenario, seed))


@lru_cache(maxsize=4 * _STEERED_SEEDS)
def _costs(scenario: InferenceScenario, seed: int) -> tuple[float, ...]:
    """Of each interval under the rule, left to itself."""
    run, rule, costs = scenario.start(scenario.load(seed), seed), first_rule(), []
    while (seen := run.next_decision()) is not None:
        run.apply(rule.decide(seen))
        costs.append(_cost(run))
    return tuple(costs)


def _cost(run: InferenceRun) -> float:
    """Of the last interval as runs are ranked: its price, and as much again for every 5 points of requests
    below what is wanted that were not served as promised; as a logarithm, so that minutes in which all is
    late do not drown the rest."""
    last = run.interval
    assert last is not None
    missing = max(run.options.wanted - (1.0 - last.missed), 0.0)
    return math.log1p(last.cost * (1.0 + missing / AS_MANY_AGAIN))


class SteeredRun:
    """A run decided by shifts of the targets of its rule."""

    def __init__(self, run: InferenceRun, of_rule: tuple[float, ...]) -> None:
        self._run, self._of_rule, self._step = run, of_rule, 0
        self._steered = SteeredRule(first_rule())
        self._choices = self._look()

    def _look(self) -> OffsetChoices | None:
        seen = self._run.next_decision()
        return None if seen is None else self._steered.look(seen)

    def next_decision(self) -> OffsetChoices | None:
        """The shifts that there are; None: the run is over."""
        return self._choices

    def apply(self, number: int) -> float:
        """Shift the targets; what the interval cost less than it does under the rule alone.

        Requests are the same, so that what they do to both is no noise to learn from, and whoever shifts
        nothing earns nothing.
        """
        self._run.apply(self._steered.take(number))
        reward = self._of_rule[self._step] - _cost(self._run)
        self._step += 1
        self._choices = self._look()
        return reward


def episodes(scenario: str = "steady", count: int = 1, *, data: Path | str | None = None) -> EpisodeLanes:
    """`count` lanes by the name of a scenario, for vector environments."""
    return lanes_of(parse(scenario, None if data is None else Path(data)), count)
