"""Policies for snapshots: rules that look one migration ahead, and planners that decide once and then
follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from proreus.kernels.arrays import I64
from proreus.kernels.rng import seeded
from proreus.worlds.rebalance.snapshots.model import Migrate, Migration, Stop
from proreus.worlds.rebalance.snapshots.policies.kinds import kinds_of
from proreus.worlds.rebalance.snapshots.policies.rules import (
    Choice,
    fitting_move,
    greedy_move,
    hottest_move,
    random_move,
)
from proreus.worlds.rebalance.snapshots.state import Machines, SnapshotObservation


class SnapshotPolicy(Protocol):
    """Decides about snapshots, one migration at a time."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def decide(self, observation: SnapshotObservation) -> Migration:
        """What to migrate next, or to stop."""
        ...


class SnapshotRule:
    """A rule that chooses the next migration from the placement alone."""

    def __init__(self, name: str, choose: Callable[[Machines], Choice]) -> None:
        self.name = name
        self._choose = choose

    def decide(self, observation: SnapshotObservation) -> Migration:
        """The rule's choice; stop where it has none."""
        vm, machine, numa = self._choose(observation.machines)
        return Stop() if vm < 0 else Migrate(int(vm), int(machine), int(numa))


class SnapshotPlanner:
    """Plans every migration when it is first asked, and then makes one after the other."""

    def __init__(self, name: str, plan: Callable[[Machines, int], tuple[I64, str]]) -> None:
        """plan: (the migrations, what is known of how good they are)."""
        self.name = name
        self.remark = ""
        """What the planner says of its plan, once there is one."""
        self._make_plan = plan
        self._plan: list[list[int]] | None = None

    def decide(self, observation: SnapshotObservation) -> Migration:
        """The next migration of the plan."""
        if self._plan is None:
            plan, self.remark = self._make_plan(observation.machines, observation.budget)
            self._plan = plan.tolist()
        return Migrate(*self._plan.pop(0)) if self._plan else Stop()


def nothing_rule(name: str) -> SnapshotPolicy:
    """Moves nothing."""
    return SnapshotRule(name, lambda machines: (-1, -1, -1))


def random_rule(name: str, seed: int) -> SnapshotPolicy:
    """Any legal migration, by lot."""
    rng = seeded(seed)
    return SnapshotRule(name, lambda machines: random_move(machines, rng))


def fitting_rule(name: str, how: int) -> SnapshotPolicy:
    """Relieves the machine that gains most, and lets fit alone choose the place."""
    return SnapshotRule(name, lambda machines: fitting_move(machines, how))


def hotspot_rule(name: str) -> SnapshotPolicy:
    """The largest of the fullest machine goes to the emptiest."""
    return SnapshotRule(name, hottest_move)


def greedy_rule(name: str) -> SnapshotPolicy:
    """The migration that shrinks the fragments most."""
    known: list[tuple[I64, I64]] = []

    def choose(machines: Machines) -> Choice:
        if not known:
            known.append(kinds_of(machines))  # kinds do not change as virtual machines move
        return greedy_move(machines, *known[0])

    return SnapshotRule(name, choose)
