"""One run: ask for a decision, carry it out, until every request is served or dropped."""

from __future__ import annotations

import math
import operator

import numpy as np

from proreus.contract.replay import OUTSIDE, Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.contract.text_bars import MOST_LINES, bar
from proreus.model.errors import IllegalDecision
from proreus.worlds.functions.model import KEEPS, Decision, Demand, Keep, StartInstance, WaitForInstance
from proreus.worlds.functions.simulation.kernel import begin, keep_for, place_on, wait
from proreus.worlds.functions.simulation.outcome import outcome_of
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.compile import new_runs
from proreus.worlds.functions.state.instances import may_wait
from proreus.worlds.functions.state.observation import FunctionsObservation

_FULL_BAR = 30
"""Instances of a node that fill its bar, in all frames of all policies."""


class FunctionsRun:
    """As `contract.simulation` says, pictures included."""

    def __init__(self, demand: Demand, work: FunctionsWork) -> None:
        self.demand, self.work = demand, work
        self.runs: Runs = new_runs(work)
        begin(work, self.runs, 0, 0)
        self._last: Move | None = None

    def next_decision(self) -> FunctionsObservation | None:
        """A function that needs an instance, or an instance that idles; None at the end."""
        if self.runs.tally[0, c.KIND] == c.OVER:
            return None
        return FunctionsObservation(self.demand, self.work, self.runs)

    def apply(self, decision: Decision | int, /) -> float:
        """Carry it out; what it was worth. An illegal decision changes nothing."""
        observation = self.next_decision()
        if observation is None:
            raise IllegalDecision("the run is over")
        meant = self._meant(decision, observation.nodes)
        match meant:
            case StartInstance(node):
                if observation.asks != "place":
                    raise IllegalDecision("an instance idles: say how long it stays")
                number = _whole(node)
                if not 0 <= number < observation.nodes or not observation.fits()[number]:
                    raise IllegalDecision(f"node {node!r}: there is no room for the instance")
                self._last = Move(observation.function.name, OUTSIDE, number)
                return float(place_on(self.work, self.runs, 0, number))
            case WaitForInstance():
                if observation.asks != "place":
                    raise IllegalDecision("an instance idles: say how long it stays")
                if not may_wait(self.runs, 0, observation.number):
                    raise IllegalDecision("the function has no instance to wait for")
                self._last = None
                return float(wait(self.work, self.runs, 0))
            case Keep(seconds):
                if observation.asks != "keep":
                    raise IllegalDecision("an instance is to be placed")
                if not isinstance(seconds, int | float) or not (0.0 <= seconds < math.inf):
                    raise IllegalDecision(f"keep: {seconds!r} is no number of seconds from 0 on")
                self._last = None
                return float(keep_for(self.work, self.runs, 0, float(seconds)))

    @staticmethod
    def _meant(decision: Decision | int, nodes: int) -> Decision:
        if isinstance(decision, StartInstance | WaitForInstance | Keep):
            return decision
        action = _whole(decision)
        if 0 <= action < nodes:
            return StartInstance(action)
        if action == nodes:
            return WaitForInstance()
        if nodes < action <= nodes + len(KEEPS):
            return Keep(KEEPS[action - nodes - 1])
        raise IllegalDecision(f"action {action}: they are 0 to {nodes + len(KEEPS)}")

    def subject(self) -> str:
        """The function, and the node of an instance that idles."""
        seen = self.next_decision()
        if seen is None:
            return ""
        return seen.function.name if seen.asks == "place" else f"{seen.function.name}@{seen.node}"

    def outcome(self) -> Outcome:
        """What the run has come to so far."""
        return outcome_of(self.demand, self.work, self.runs)

    def screen(self) -> list[str]:
        """Two bars for each node: what is reserved and what is used of its CPU."""
        tally, figure = self.runs.tally[0], self.runs.figure[0]
        head = (
            f"{figure[c.NOW]:,.1f} s: {tally[c.CAME]:,} requests came, {tally[c.SERVED]:,} served, "
            f"{tally[c.QUEUED] + tally[c.HELD]:,} wait, {tally[c.DROPPED]:,} dropped; "
            f"{tally[c.COLD]:,} cold; {tally[c.LIVE]:,} instances, ${figure[c.PAID] / c.MICRO_HOURS:,.4f}"
        )
        seen = FunctionsObservation(self.demand, self.work, self.runs)
        reserved, used = seen.reserved()[:, 0], seen.used()[:, 0]
        lines = [
            f"node {node:3d} reserved ▕{bar(share)}▏ used ▕{bar(two)}▏ {self._holds(node)}"
            for node, (share, two) in enumerate(zip(reserved.tolist(), used.tolist(), strict=True))
        ]
        return [head, *lines[:MOST_LINES]]

    def _holds(self, node: int) -> str:
        columns = self.runs.node[0, node]
        working, starting = int(columns[c.WORKING]), int(columns[c.WARMING])
        idle = int(columns[c.HOLDS]) - working - starting
        if not columns[c.HOLDS]:
            return "not active"
        return f"{working} busy, {idle} idle, {starting} starting"

    def stage(self) -> Stage:
        """The nodes: warm and cold instances, and CPU."""
        sizes = self.work.capacity[:, c.CPU] / 1_000
        names = tuple(f"node {node} ({cores:g} cores)" for node, cores in enumerate(sizes.tolist()))
        return Stage(
            "node",
            names,
            (f"warm instances of {_FULL_BAR}", "starting ones", "CPU reserved", "CPU used"),
            colour=3,
            idle="no instance was placed",
            all_moves=False,
            clock=True,
        )

    def look(self) -> Look:
        """The nodes now, with the last instance that was placed."""
        tally, figure = self.runs.tally[0], self.runs.figure[0]
        columns = self.runs.node[0]
        seen = FunctionsObservation(self.demand, self.work, self.runs)
        reserved, used = seen.reserved(), seen.used()
        starting = columns[:, c.WARMING] / _FULL_BAR
        warm = columns[:, c.HOLDS] / _FULL_BAR - starting
        gauges = np.stack([warm, starting, reserved[:, 0], used[:, 0]], axis=1)
        series = {
            "warm": float(tally[c.LIVE] - tally[c.STARTING]),
            "starting": float(tally[c.STARTING]),
            "active": float(tally[c.ACTIVE]),
            "waiting": float(tally[c.QUEUED] + tally[c.HELD]),
            "cost": float(figure[c.PAID] / c.MICRO_HOURS),
        }
        moves, self._last = () if self._last is None else (self._last,), None
        use = np.maximum(reserved[:, 0], columns[:, c.MEMORY] / self.work.capacity[:, c.MEMORY])
        levels = levels_of(gauges[:, None, :])
        return Look(float(figure[c.NOW]), int(tally[c.DECISIONS]), series, use, levels, moves)

    def told(self, before: Look | None, now: Look) -> str:
        """So many instances."""
        series = now.series
        return (
            f"{series['warm']:,.0f} warm and {series['starting']:,.0f} starting instances on "
            f"{series['active']:,.0f} nodes"
        )

    def facts(self) -> tuple[str, ...]:
        """The size of the run."""
        return (
            f"{self.work.price.size:,} nodes",
            f"{len(self.demand.functions):,} functions",
            f"{len(self.demand):,} requests",
        )


def _whole(value: object) -> int:
    """A whole number, as Python or NumPy has it."""
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what it is asked is what it finds out
    except TypeError:
        raise IllegalDecision(f"{value!r} is neither Place, Wait, Keep nor the number of an action") from None
