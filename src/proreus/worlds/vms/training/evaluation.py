"""What networks learn from in the world `vms`, and how good they are on starts that nobody trained on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.settings import at_least_one, not_negative
from proreus.model.errors import UsageError
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.outcome import measures_of
from proreus.worlds.vms.simulation.runs import VmRuns, planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmRowLanes
from proreus.worlds.vms.training.objective import ahead, best_of
from proreus.worlds.vms.training.training_trace import (
    CONFIRMED_EPISODES,
    RULES,
    Purpose,
    TrainingTrace,
    held_out,
    training_trace,
)

_USUAL_LIMIT = 5_000


@dataclass(frozen=True)
class VmsLessons:
    """What is trained on and how it is judged."""

    limit: int = 0
    """Machines of a run at most; 0: SPANE's length where machines wait, 5,000 elsewhere."""
    ending_cost: float = 10.0
    """Where a run ends with the first machine that fits nowhere: what that costs, in place of a reward for
    every placement; 0: the scenario's own reward."""
    validation_starts: int = 200
    """Runs by which the policy is judged, from starts of the validation part."""
    confirm_starts: int = 200
    """Runs that say, at the end, how much better the best is than the start; in 20 groups."""
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""
    patience: int = 0
    """End after so many judgements without a new best; 0: never."""

    def __post_init__(self) -> None:
        at_least_one(self, "validation_starts", "confirm_starts", "evaluate_every")
        not_negative(self, "limit", "patience")
        if not 0.0 <= self.ending_cost < np.inf:
            raise UsageError(f"ending_cost: {self.ending_cost} is not a number from 0 on")


@dataclass(frozen=True)
class VmsLaneLessons(VmsLessons):
    """The same for learners that play many runs side by side."""

    lanes: int = 64
    """Runs that are played side by side; each is hundreds of choices long, so that learning sees few ends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "lanes")


@dataclass(frozen=True)
class VmsSchool:
    """A trace in its parts: runs to learn from, and runs to be judged by."""

    trace: TrainingTrace
    options: VmsOptions
    lessons: VmsLessons

    def lanes(self, count: int) -> VmRowLanes:
        """Runs that start in the training part."""
        starts = BatchSettings(*self.trace.part("train"), self._limit)
        batch = BatchedVms(self._work, self.options, count, starts)
        return VmRowLanes(batch, self.lessons.ending_cost if self.options.full == "end" else 0.0)

    def gain(self, policy: VmRulePolicy) -> float:
        """How much better than the best rule, in % (points where machines are turned away)."""
        return ahead(self.options.full, self._result(policy, self._held_out), self._best_rule)

    def confirmed_gains(self, policy: VmRulePolicy) -> F64:
        """The same for each group of runs on which nothing is chosen."""
        return np.array(
            [
                ahead(self.options.full, self._result(policy, group), rule)
                for group, rule in zip(self._groups, self._best_rules, strict=True)
            ]
        )

    @property
    def _limit(self) -> int:
        return self.lessons.limit or (0 if self.options.full == "wait" else _USUAL_LIMIT)

    @property
    def _work(self) -> VmWork:
        return self.trace.work(self.options.double)

    @cached_property
    def _held_out(self) -> VmRuns:
        return self._runs("choose", self.lessons.validation_starts)

    @cached_property
    def _groups(self) -> tuple[VmRuns, ...]:
        return grouped(self._runs("confirm", self.lessons.confirm_starts))

    def _runs(self, purpose: Purpose, count: int) -> VmRuns:
        ((trace, starts),) = held_out(self.trace, purpose, count, 1)
        return planned_runs(trace.work(self.options.double), self.options, starts, self._limit)

    @cached_property
    def _best_rule(self) -> float:
        measures = [self._result(rule_policy(name), self._held_out) for name in RULES]
        return measures[best_of(self.options.full, measures)]

    @cached_property
    def _best_rules(self) -> list[float]:
        """What the rule that is best over all groups comes to in each."""
        results = [[self._result(rule_policy(name), group) for group in self._groups] for name in RULES]
        return results[best_of(self.options.full, [sum(groups) for groups in results])]

    def _result(self, policy: VmRulePolicy, runs: VmRuns) -> float:
        """Total wait, machines placed or % turned away, as comparisons have it."""
        figures, _ = play_runs(runs, policy)
        deciding = {"wait": "total_wait", "end": "placements", "reject": "rejected"}[self.options.full]
        return measures_of(figures, self.options.full, grows=self.options.growth > 0)[deciding]


def grouped(runs: VmRuns) -> tuple[VmRuns, ...]:
    """Neighbouring runs together: the episodes on which a result is confirmed."""
    parts = np.array_split(np.arange(runs.starts.size), min(CONFIRMED_EPISODES, runs.starts.size))
    return tuple(replace(runs, starts=runs.starts[part], limits=runs.limits[part]) for part in parts)


@lru_cache(maxsize=2)
def school_of(scenario: VmScenario, lessons: VmsLessons) -> VmsSchool:
    """What a learner and its judge share."""
    return VmsSchool(training_trace(scenario), scenario.options, lessons)
