"""How good a policy is on the validation part, as a gain over the scenario's strongest rule, in any world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from proreus.contract.scenario import Part
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure


class Measurable(Protocol):
    """A scenario; it can be the key of a mapping."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def of_part(self, part: Part) -> Self:
        """The same on another part of the data: train, valid and test never meet."""
        ...

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """(measure, rules): what is to be beaten is the best of these rules in that measure."""
        ...


def confirming(chosen_on: int, count: int) -> range:
    """Seeds to confirm on: those after the ones that checkpoints are chosen on."""
    return range(chosen_on, chosen_on + count)


S = TypeVar("S", bound=Measurable)
P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class Judge(Generic[S, P]):
    """Plays policies where nobody trains; what rules come to there is found once."""

    play: Callable[[S, int, P], Mapping[str, float]]
    """The measures of a policy over a scenario with that seed."""
    rule: Callable[[str], P]
    """The rule of that name."""
    measures: Mapping[str, Measure]
    _played: dict[tuple[S, int, str], float] = field(default_factory=dict)
    _yardsticks: dict[S, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def gains(self, make: Callable[[], P], scenarios: Sequence[S], seeds: int) -> dict[str, float]:
        """Scenario -> mean gain over its strongest rule, in the measure's unit; `make`: one for each run."""
        return {
            name: float(np.mean(gains)) for name, gains in self.each(make, scenarios, range(seeds)).items()
        }

    def each(self, make: Callable[[], P], scenarios: Sequence[S], seeds: Sequence[int]) -> dict[str, F64]:
        """Scenario -> gain over the rule that is strongest over these seeds, for each of them."""
        gains = {}
        for scenario in (scenario.of_part("valid") for scenario in scenarios):
            if scenario not in self._yardsticks:
                self._yardsticks[scenario] = scenario.yardstick()
            measure, rules = self._yardsticks[scenario]
            sign = 1.0 if self.measures[measure].better == "higher" else -1.0
            ours = np.array([self.play(scenario, seed, make())[measure] for seed in seeds])
            over = [sign * (ours - self._of_rule(scenario, seeds, measure, rule)) for rule in rules]
            gains[scenario.name] = min(over, key=lambda gain: float(np.mean(gain)))
        return gains

    def _of_rule(self, scenario: S, seeds: Sequence[int], measure: str, rule: str) -> F64:
        for seed in seeds:
            if (scenario, seed, rule) not in self._played:
                self._played[scenario, seed, rule] = self.play(scenario, seed, self.rule(rule))[measure]
        return np.array([self._played[scenario, seed, rule] for seed in seeds])
