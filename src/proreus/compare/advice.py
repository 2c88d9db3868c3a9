"""What follows from judging rules, what ships and what was trained on the same draws: which one to use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from proreus.compare.statistics import Difference, paired_difference
from proreus.compare.trials import TrialResult
from proreus.model.estimate import CONFIDENCE, Estimate, estimate, student_t_quantile
from proreus.model.measure import Measure
from proreus.policies.catalogue import LEARNED

CANDIDATE = "candidate"
MOST_DRAWS = 1_000


class Training(Enum):
    """What came of it."""

    NOT_DONE = "not done"
    START_STAYED = "start stayed"
    """No generation was better than the start, which is a policy that was judged: there is nothing more."""
    JUDGED = "judged"


@dataclass(frozen=True)
class Judged:
    """Every policy on the held-out part, in the measure that decides."""

    measure: Measure
    results: tuple[TrialResult, ...]
    rules: tuple[str, ...]
    training: Training
    strongest: str = ""
    """The rule known to be the strongest for this kind of work; "": none is known."""
    start: str = LEARNED
    """The policy that training began as."""
    tried: int = 0
    """Generations of the search."""

    @property
    def means(self) -> dict[str, Estimate]:
        """Policy -> mean with its interval, best first; equals in the order they were played."""
        names = dict.fromkeys(result.policy for result in self.results)
        means = {name: estimate(self._values(name)) for name in names}
        return dict(sorted(means.items(), key=lambda item: -self._sign * item[1].mean))

    @property
    def best_rule(self) -> str:
        """The one with the best mean, which may be luck: what is handed out has to be ahead of it."""
        return next(name for name in self.means if name in self.rules)

    @property
    def rule_to_use(self) -> str:
        """The strongest one known, unless the best one here is ahead of it by more than chance."""
        if self.strongest not in self.rules or self.is_ahead(self.best_rule, self.strongest):
            return self.best_rule
        return self.strongest

    @property
    def level_rules(self) -> tuple[str, ...]:
        """Rules that the draws cannot tell from the one to use, best mean first."""
        use = self.rule_to_use
        others = [name for name in self.means if name in self.rules and name != use]
        return tuple(name for name in others if not self._told_apart(name, use))

    @property
    def advice(self) -> str:
        """What was trained, where it is ahead of the best rule and of what ships; else what ships, where that
        or what was trained from it is ahead of the best rule; else a rule."""
        ships = any(result.policy == LEARNED for result in self.results)
        trained = self.is_ahead(CANDIDATE)
        if trained and (not ships or self.is_ahead(CANDIDATE, LEARNED)):
            return CANDIDATE
        level = trained and ships and not self._told_apart(CANDIDATE, LEARNED)
        return LEARNED if self.is_ahead(LEARNED) or level else self.rule_to_use

    def is_ahead(self, name: str, over: str = "") -> bool:
        """Whether it is better than `over`, the best rule where nothing is named, and that not by chance."""
        gain = self.gain(name, over)
        return gain is not None and gain.significant and gain.estimate.mean > 0

    def gain(self, name: str, over: str = "") -> Difference | None:
        """How much better than `over`, the best rule where nothing is named; more is better."""
        difference = paired_difference(self.results, self.measure.name, name, over or self.best_rule)
        if difference is None or self._sign > 0:
            return difference
        values = tuple(-value for value in difference.values)
        return replace(difference, values=values, estimate=estimate(values))

    def mean_of(self, measure: str, name: str) -> float:
        """Of another measure."""
        values = [
            trial_result.measures[measure] for trial_result in self.results if trial_result.policy == name
        ]
        return sum(values) / len(values)

    def _told_apart(self, name: str, other: str) -> bool:
        return self.is_ahead(name, other) or self.is_ahead(other, name)

    @property
    def _sign(self) -> float:
        return 1.0 if self.measure.better == "higher" else -1.0

    def _values(self, name: str) -> list[float]:
        return [
            trial_result.measures[self.measure.name]
            for trial_result in self.results
            if trial_result.policy == name
        ]


def draws_to_tell(difference: Difference) -> int | None:
    """About how many draws would leave zero out, if mean and spread stay; None: more than there may be."""
    estimate = difference.estimate
    if estimate.half is None or not estimate.mean:
        return None
    deviation = estimate.half * math.sqrt(estimate.n) / _quantile(estimate.n)
    ratio = (deviation / estimate.mean) ** 2
    if 4 * ratio > MOST_DRAWS:
        return None
    rough = max(estimate.n + 1, math.ceil(4 * ratio))
    return max(estimate.n + 1, math.ceil(_quantile(rough) ** 2 * ratio) + 1)


def _quantile(draws: int) -> float:
    return student_t_quantile(0.5 + CONFIDENCE / 2, draws - 1)
