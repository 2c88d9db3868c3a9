"""Rules and networks as policies; a kernel may also run the `WorkflowsRule` of one by itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.policies.networks.bidder import Bidder, no_bidder
from proreus.policies.protocol import Explanation, Policy
from proreus.worlds.workflows.encoding.rows import SIZES, rows_for
from proreus.worlds.workflows.model import Assign, Decision, Pass
from proreus.worlds.workflows.policies.columns import BIDDING, CPOP, PEFT, WorkflowsRule
from proreus.worlds.workflows.policies.explanation import explained
from proreus.worlds.workflows.policies.rules import choose
from proreus.worlds.workflows.state.columns import PASSES, WorkflowsWork
from proreus.worlds.workflows.state.observation import WorkflowsObservation
from proreus.worlds.workflows.state.ranks import optimistic_costs

WorkflowsPolicy: TypeAlias = Policy[WorkflowsObservation, Decision]
_SAME = 1e-9
"""Relative: ranks that differ by less are of one path."""


@dataclass(frozen=True, eq=False)
class WorkflowsRulePolicy:
    """A rule, or a network that bids."""

    name: str
    kind: int
    seed: int = 0
    bidder: Bidder = field(default_factory=lambda: no_bidder(SIZES))
    _bound: list[tuple[WorkflowsWork, WorkflowsRule]] = field(default_factory=list, init=False, repr=False)
    """The work of this policy's run and the rule for it."""

    def fresh(self, seed: int) -> WorkflowsRulePolicy:
        """The same, for another run."""
        return replace(self, seed=seed)

    def rule_for(self, work: WorkflowsWork) -> WorkflowsRule:
        """The rule of this policy's run, with its memory and its dice."""
        if not self._bound or self._bound[0][0] is not work:
            self._bound[:] = [(work, self._new_rule(work))]
        return self._bound[0][1]

    def decide(self, observation: WorkflowsObservation) -> Decision:
        task, node = choose(observation.work, observation.state, self.rule_for(observation.work))
        return Pass() if task == PASSES else Assign(int(task), int(node))

    def explain(self, observation: WorkflowsObservation) -> Explanation:
        """The rule's choice, and what it would be everywhere; asking changes nothing."""
        rule = self.rule_for(observation.work)
        memory = rule.rng.copy(), rule.cursor.copy()
        decision = self.decide(observation)
        rule.rng[:], rule.cursor[:] = memory
        return explained(self.name, rule, observation, decision)

    def _new_rule(self, work: WorkflowsWork) -> WorkflowsRule:
        tasks, nodes = work.duration.shape
        rows = rows_for(nodes) if self.kind == BIDDING else 0
        priority, pinned = work.up.copy(), np.full(tasks, -1, dtype=np.int32)
        outlook = np.zeros((0, nodes))
        if self.kind == PEFT:
            outlook = optimistic_costs(work.duration, work.child_from, work.child, work.child_delay)
            priority = outlook.mean(axis=1)
        elif self.kind == CPOP:
            priority = work.up + work.down
            pinned = critical_machines(work, priority)
        return pack(
            WorkflowsRule(
                kind=np.array([self.kind], dtype=np.int64),
                priority=priority,
                pinned=pinned,
                outlook=outlook,
                cursor=np.zeros(1, dtype=np.int64),
                rng=seeded(self.seed),
                rows=np.zeros((rows, SIZES[0]), dtype=np.float32),
                context=np.zeros(SIZES[1], dtype=np.float32),
                fits=np.zeros(rows, dtype=np.uint8),
                bids=np.zeros(rows, dtype=np.float32),
                bidder=self.bidder,
            )
        )


def critical_machines(work: WorkflowsWork, priority: F64) -> I32:
    """[T] CPOP's: the tasks of a workflow's critical path share the machine that runs all of it first."""
    critical_machines = np.full(priority.size, -1, dtype=np.int32)
    for begin, end in zip(work.first[:-1].tolist(), work.first[1:].tolist(), strict=True):
        part = priority[begin:end]
        path = begin + np.flatnonzero(part >= part.max() * (1.0 - _SAME))
        critical_machines[path] = int(work.duration[path].sum(axis=0).argmin())
    return critical_machines
