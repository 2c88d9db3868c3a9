"""Hours out of days: what learners are tried on, since a whole day says little more than some of its hours.

A window begins with as many instances as its first load needs: what happens while a cluster of the wrong size
grows to the right one is the same whoever controls it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from proreus.policies.catalogue import AnyPolicy
from proreus.worlds.inference.encoding.demand import demand_of
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.knobs import Knobs
from proreus.worlds.inference.policies.learned import Learned
from proreus.worlds.inference.scenarios import InferenceScenario

_BEGINS = 600.0
"""Seconds between moments at which a window may begin."""
_FIRST_USE = 0.7


@dataclass(frozen=True)
class WindowCost:
    """What windows came to together."""

    gpu_hours: float = 0.0
    kept: float = 0.0
    """Requests that were served as promised."""
    arrived: float = 0.0
    turns: float = 0.0
    """From growing to shrinking or back."""
    hours: float = 0.0

    def __add__(self, other: WindowCost) -> WindowCost:
        return WindowCost(
            self.gpu_hours + other.gpu_hours,
            self.kept + other.kept,
            self.arrived + other.arrived,
            self.turns + other.turns,
            self.hours + other.hours,
        )

    @property
    def attained(self) -> float:
        """Share of requests that were served as promised."""
        return self.kept / max(self.arrived, 1.0)

    @property
    def turns_an_hour(self) -> float:
        """How restless the control was."""
        return self.turns / max(self.hours, 1e-9)

    def weighed(self, promised: float, as_many_again: float) -> float:
        """GPU-hours, and as many again for every so much of attainment below what was promised."""
        return self.gpu_hours * (1.0 + max(promised - self.attained, 0.0) / as_many_again)


@dataclass(frozen=True)
class Window:
    """Some time out of a scenario's work."""

    scenario: InferenceScenario
    seed: int
    """Of its work."""


def windows_of(scenario: InferenceScenario, seed: int, count: int, seconds: float) -> list[Window]:
    """Those that a seed draws, from all days and hours alike."""
    draw = np.random.default_rng(seed)
    first = int(draw.integers(1 << 20))
    day = scenario.load_.day_seconds
    last = max(day - seconds, _BEGINS)
    windows = []
    for place in range(count):
        begins = math.floor(draw.uniform(0.0, last) / _BEGINS) * _BEGINS
        load = replace(scenario.load_, begins=begins, seconds=min(seconds, scenario.load_.seconds))
        windows.append(Window(replace(scenario, load_=load), first + place))
    return windows


def rule_spends(window: Window, rule: str) -> WindowCost:
    """What a rule comes to."""
    return _spends(window, POLICIES.make(rule))


def knobs_spend(window: Window, knobs: Knobs) -> WindowCost:
    """What a learned controller comes to."""
    return _spends(window, Learned("candidate", knobs))


def _spends(window: Window, policy: AnyPolicy) -> WindowCost:
    work = window.scenario.load(window.seed)
    scenario = fit_for(window.scenario, work)
    measures = play(scenario, work, policy, window.seed).measures
    hours = float(work.arrival[-1]) / 3600.0
    return WindowCost(
        measures["gpu_hours"],
        measures["slo_attainment"] / 100.0 * len(work),
        float(len(work)),
        measures["oscillation"] * hours,
        hours,
    )


def fit_for(scenario: InferenceScenario, work: RequestTrace) -> InferenceScenario:
    """The scenario with as many instances as the first load needs."""
    seen = scenario.start(work, 0).next_decision()
    if seen is None:
        return scenario
    rate = float((work.arrival < 60.0).sum()) / 60.0
    most = seen.limits.most_in_total // len(seen.pools)
    counts: dict[Role, int] = {
        pool.role: min(max(math.ceil(rate * demand_of(seen, pool.role).each / _FIRST_USE), 1), most)
        for pool in seen.pools
    }
    before = scenario.machines
    fit = replace(
        before,
        prompt=counts.get("prompt", before.prompt),
        token=counts.get("token", before.token),
        mixed=counts.get("mixed", before.mixed),
    )
    return replace(scenario, machines=fit)
