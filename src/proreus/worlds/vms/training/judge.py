"""What networks learn from in the world `vms`, and how good they are on starts that nobody trained on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proreus.model.errors import UsageError
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.columns import Work
from proreus.worlds.vms.simulation.outcome import measures_of
from proreus.worlds.vms.simulation.runs import VmRuns, planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions, compile_trace
from proreus.worlds.vms.traces.huawei import split_range
from proreus.worlds.vms.training.goal import RULES, evenly
from proreus.worlds.vms.training.lanes import BatchSettings
from proreus.worlds.vms.training.servers import VmsServers

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
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        for name in ("validation_starts", "evaluate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.limit < 0:
            raise UsageError(f"limit: {self.limit} is negative")
        if not 0.0 <= self.ending_cost < np.inf:
            raise UsageError(f"ending_cost: {self.ending_cost} is not a number from 0 on")


@dataclass(frozen=True)
class LaneLessons(VmsLessons):
    """The same for learners that play many runs side by side."""

    lanes: int = 64
    """Runs that are played side by side; each is hundreds of choices long, so that learning sees few ends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes < 1:
            raise UsageError(f"lanes: {self.lanes} is not at least 1")


@dataclass(frozen=True, eq=False)
class VmsSchool:
    """A trace in its parts: runs to learn from, and runs to be judged by."""

    name: str
    """Of the scenario."""
    trace: VmTrace
    options: VmsOptions
    lessons: VmsLessons

    def servers(self, lanes: int) -> VmsServers:
        """Runs that start in the training part."""
        first, last = split_range("train", len(self.trace))
        cost = self.lessons.ending_cost if self.options.full == "end" else 0.0
        return VmsServers(self._work, self.options, lanes, BatchSettings(first, last, self._limit), cost)

    def gain(self, policy: VmRulePolicy) -> float:
        """How much better than the best rule, in % (points where machines are turned away)."""
        ours, rule = self._result(policy), self._best_rule
        match self.options.full:
            case "wait":
                return 100.0 * (1.0 - ours / max(rule, 1.0))
            case "end":
                return 100.0 * (ours / max(rule, 1.0) - 1.0)
            case "reject":
                return rule - ours

    @property
    def _limit(self) -> int:
        return self.lessons.limit or (0 if self.options.full == "wait" else _USUAL_LIMIT)

    @cached_property
    def _work(self) -> Work:
        return compile_trace(self.trace, self.options.double)

    @cached_property
    def _held_out(self) -> VmRuns:
        starts = evenly(*split_range("valid", len(self.trace)), self.lessons.validation_starts, 0.5)
        return planned_runs(self._work, self.options, starts, self._limit)

    @cached_property
    def _best_rule(self) -> float:
        found = [self._result(rule_policy(name)) for name in RULES]
        return max(found) if self.options.full == "end" else min(found)

    def _result(self, policy: VmRulePolicy) -> float:
        """Total wait, machines placed or % turned away, as comparisons have it."""
        figures, _ = play_runs(self._held_out, policy)
        deciding = {"wait": "total_wait", "end": "placements", "reject": "rejected"}[self.options.full]
        return measures_of(figures, self.options.full, grows=self.options.growth > 0)[deciding]
