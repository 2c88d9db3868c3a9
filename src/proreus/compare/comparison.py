"""What is compared and what came out: the values that every table, plot and report is made from.

The command line and the benchmarks call `compare`; `outputs` writes the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proreus.compare.statistics import Row, summarise
from proreus.compare.trials import Progress, TrialResult, TrialTask, run_trials
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.model.errors import UsageError
from proreus.policies.catalogue import AnyPolicy
from proreus.workers.processes import Workers
from proreus.worlds import registered
from proreus.worlds import world as world_of


@dataclass(frozen=True)
class CompareRequest:
    """Policies x scenarios x seeds."""

    scenarios: tuple[Scenario, ...]
    """Of one world."""
    policies: tuple[str, ...]
    options: Any = None
    """For every policy, as the world's policies take them; None: their defaults."""
    seeds: tuple[int, ...] = (0,)
    """Each seed draws a workload where the scenario draws, and the policies' random choices."""
    processes: int | None = None
    """None: all cores; 1: this process only."""
    ray: str = ""
    """A Ray cluster to run on in place of processes; see `workers.Workers`."""
    own: Mapping[str, AnyPolicy] = field(default_factory=dict)
    """Policies that were given as objects, by name: they are played in this process."""

    def __post_init__(self) -> None:
        _check_names("scenario", [scenario.name for scenario in self.scenarios])
        if len({scenario.world for scenario in self.scenarios}) > 1:
            raise UsageError("scenarios of different worlds cannot be compared")
        _check_names("policy", self.policies)
        if self.own and (self.processes != 1 or self.ray):
            raise UsageError("policies given as objects are played in this process: name a file.py:Class")
        _check_names("seed", [str(seed) for seed in self.seeds])
        if self.processes is not None and self.processes < 1:
            raise UsageError(f"processes: {self.processes} is not at least 1")
        if any(seed < 0 for seed in self.seeds):
            raise UsageError("a seed cannot be negative")


@dataclass(frozen=True)
class Comparison:
    """The answer to a request."""

    request: CompareRequest
    results: tuple[TrialResult, ...]
    """By scenario, seed and policy, in the order of the request."""
    rows: tuple[Row, ...]
    """By scenario, policy and measure."""

    @property
    def world(self) -> World:
        """The world of all scenarios."""
        return world_of(self.request.scenarios[0].world)

    def results_for(self, scenario: Scenario) -> tuple[TrialResult, ...]:
        """The results of one scenario."""
        return tuple(result for result in self.results if result.scenario == scenario.name)

    def rows_for(self, scenario: Scenario, measure: str | None = None) -> tuple[Row, ...]:
        """The rows of one scenario, of one measure or of all."""
        return tuple(
            row
            for row in self.rows
            if row.scenario == scenario.name and (measure is None or row.measure == measure)
        )


def compare(request: CompareRequest, progress: Progress | None = None) -> Comparison:
    """Run the request; every policy of a scenario and seed meets the same workload."""
    name = request.scenarios[0].world
    world, home, options = world_of(name), registered()[name], request.options
    for scenario in request.scenarios:
        for policy in request.policies:
            if policy not in request.own:  # a wrong name is told before anything is loaded
                world.policies(scenario).make(policy, options)
    tasks = [
        TrialTask(
            scenario, seed, request.policies, options, name, home, seed == request.seeds[0], request.own
        )
        for scenario in request.scenarios
        for seed in request.seeds
    ]
    results = run_trials(tasks, Workers(request.processes or 0, request.ray), progress)
    return Comparison(request, results, summarise(results, world.measures))


def _check_names(kind: str, names: Sequence[str]) -> None:
    """At least one, and no two alike: rows could not be told apart."""
    if not names:
        raise UsageError(f"no {kind} to compare")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(f"the {kind} {name!r} is named twice")
