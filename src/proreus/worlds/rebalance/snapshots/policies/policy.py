"""Policies for snapshots: rules that look one migration ahead, and planners that decide once and then
follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from proreus.kernels.arrays import I64
from proreus.kernels.rng import seeded
from proreus.policies.protocol import Policy
from proreus.worlds.rebalance.decision import Migrate, Migration, Stop
from proreus.worlds.rebalance.snapshots.policies.rules import (
    Choice,
    fitting_move,
    greedy_move,
    hottest_move,
    random_move,
)
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines, SnapshotObservation

SnapshotPolicy: TypeAlias = Policy[SnapshotObservation, Migration]
"""Decides what to migrate next, or to stop."""
Choose = Callable[[Machines], Choice]


class SnapshotRule:
    """A rule that chooses the next migration from the placement alone."""

    def __init__(self, name: str, chooser: Callable[[int], Choose], seed: int = 0) -> None:
        """chooser: from a seed to a function that chooses, with what it remembers of one run."""
        self.name = name
        self._chooser = chooser
        self._choose = chooser(seed)

    def fresh(self, seed: int) -> SnapshotRule:
        """The same rule, for another run."""
        return SnapshotRule(self.name, self._chooser, seed)

    def decide(self, observation: SnapshotObservation) -> Migration:
        """The rule's choice; stop where it has none."""
        vm, machine, numa = self._choose(observation.machines)
        return Stop() if vm < 0 else Migrate(int(vm), int(machine), int(numa))


Plan = Callable[[Machines, int, int], tuple[I64, str]]
"""From machines, budget and seed to (the migrations, what is known of how good they are)."""


class SnapshotPlanner:
    """Plans every migration when it is first asked, and then makes one after the other."""

    def __init__(self, name: str, plan: Plan, seed: int = 0) -> None:
        self.name = name
        self.remark = ""
        """What the planner says of its plan, once there is one."""
        self._make_plan, self._seed = plan, seed
        self._plan: list[list[int]] | None = None

    def fresh(self, seed: int) -> SnapshotPlanner:
        """The same planner, without a plan."""
        return SnapshotPlanner(self.name, self._make_plan, seed)

    def decide(self, observation: SnapshotObservation) -> Migration:
        """The next migration of the plan."""
        if self._plan is None:
            plan, self.remark = self._make_plan(observation.machines, observation.budget, self._seed)
            self._plan = plan.tolist()
        return Migrate(*self._plan.pop(0)) if self._plan else Stop()


def nothing(seed: int) -> Choose:
    return lambda machines: (-1, -1, -1)


def any_migration(seed: int) -> Choose:
    """Any legal migration, by lot."""
    rng = seeded(seed)
    return lambda machines: random_move(machines, rng)


def fitting(how: int) -> Callable[[int], Choose]:
    """Relieves the machine that gains most, and lets fit alone choose the place."""
    return lambda seed: lambda machines: fitting_move(machines, how)


def hottest(seed: int) -> Choose:
    """The largest of the fullest machine goes to the emptiest."""
    return hottest_move


def greedy(seed: int) -> Choose:
    """The migration that shrinks the fragments most."""
    known: list[tuple[I64, I64]] = []

    def choose(machines: Machines) -> Choice:
        if not known:
            known.append(kinds_of(machines))  # kinds do not change as virtual machines move
        return greedy_move(machines, *known[0])

    return choose
