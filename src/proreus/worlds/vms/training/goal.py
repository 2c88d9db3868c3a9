"""Evolution strategy for virtual machines: CMA-ES over the weights of the scorer, from first fit on.

With all weights zero every place scores alike and the first one is taken, so the search starts at first fit.
One generation draws starts evenly over the training part of the trace, with a new offset each time, and ranks
its members by the mean logarithm of the total waiting time from these starts: the same for all members, and
not ruled by the few starts from which everyone waits for days. Now and then the mean of the population is
judged on the validation part; the best by that is kept. The test part is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cmaes import CMA

from proreus.kernels.arrays import F64, I64
from proreus.model.errors import UsageError, WorkError
from proreus.workers.threads import Threads
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.play import total_waits, wait_times
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.policies.columns import LEARNED
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.columns import Work
from proreus.worlds.vms.simulation.outcome import trimmed_mean
from proreus.worlds.vms.simulation.runs import VmRuns, planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions, VmsWorld, compile_trace, with_servers
from proreus.worlds.vms.traces.huawei import split_range

Goal = Literal["log", "trimmed"]
RULES = ("first_fit", "best_fit", "balance_fit")
"""The opponents."""


@dataclass(frozen=True)
class VmsESConfig:
    """Settings of the evolution strategy."""

    generations: int = 60
    """How many populations to try."""
    population: int = 20
    """Weight vectors per generation."""
    sigma: float = 0.5
    """Width of the first population."""
    servers: tuple[int, ...] = ()
    """Sizes of cluster to train on; none: the scenario's."""
    starts: int = 240
    """Runs per member, generation and size."""
    validation_starts: int = 800
    """Runs by which the mean is judged, for each size."""
    evaluate_every: int = 5
    """Generations between judgements."""
    goal: Goal = "log"
    """What to lower: the mean logarithm of the total wait, or its trimmed mean."""
    seed: int = 1
    """Seed of the search."""

    def __post_init__(self) -> None:
        for name in ("generations", "population", "starts", "validation_starts", "evaluate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is not at least 1")
        if not 0 < self.sigma < np.inf:
            raise UsageError(f"sigma: {self.sigma} is not above 0")
        if min(self.servers, default=1) < 1:
            raise UsageError("servers: sizes of at least 1")


@dataclass(frozen=True)
class VmsGeneration:
    """What one generation came to."""

    number: int
    fitness: tuple[float, ...]
    """Minus the goal, per member."""
    sigma: float
    validation: dict[str, float] | None
    """Where it was judged: how much less the mean waits than the best rule, in %, by size of cluster."""
    weights: F64
    """The mean of the search distribution."""
    decisions: int
    seconds: float


def evolve_vms(
    config: VmsESConfig,
    trace: VmTrace,
    options: VmsOptions,
    threads: Threads,
    past: Sequence[Sequence[float]] = (),
) -> Iterator[VmsGeneration]:
    """Generation after generation; `past` holds the fitness of those that are not to be run again."""
    if options.full != "wait":
        raise UsageError("the total wait is learned where machines wait: choose such a scenario")
    search = CMA(
        mean=np.zeros(len(FEATURES)),
        sigma=config.sigma,
        population_size=config.population,
        seed=config.seed,
    )
    draw = np.random.default_rng(config.seed)
    arena = _Arena(config, compile_trace(trace, options.double), options, threads)
    first, last = split_range("train", len(trace))
    for number in range(config.generations):
        begin = time.perf_counter()
        members = [search.ask() for _ in range(config.population)]
        starts = evenly(first, last, config.starts, float(draw.random()))
        known = number < len(past)
        fitness, decisions = (list(past[number]), 0) if known else arena.fitness(members, starts)
        if not np.isfinite(fitness).all():
            raise WorkError(f"generation {number}: a fitness is not a number")
        search.tell([(member, -value) for member, value in zip(members, fitness, strict=True)])
        if known:
            continue
        mean = np.asarray(search.mean, dtype=np.float64)
        judged = (number + 1) % config.evaluate_every == 0 or number + 1 == config.generations
        yield VmsGeneration(
            number=number,
            fitness=tuple(fitness),
            sigma=float(search._sigma),
            validation=arena.validate(mean, split_range("valid", len(trace))) if judged else None,
            weights=mean,
            decisions=decisions,
            seconds=time.perf_counter() - begin,
        )


def evenly(first: int, last: int, count: int, offset: float) -> I64:
    """So many starts from `first` to `last` - 1, evenly spaced and moved by `offset` of a gap."""
    return (first + (np.arange(count) + offset) * (last - first) / count).astype(np.int64)


class _Arena:
    """Plays weight vectors on threads; each has lanes of its own."""

    def __init__(self, config: VmsESConfig, work: Work, options: VmsOptions, threads: Threads) -> None:
        self._config, self._work, self._threads = config, work, threads
        sizes = config.servers or (options.first_servers,)
        self._sizes = [with_servers(options, count) for count in sizes]
        self._validation: list[VmRuns] = []
        self._best_rule: list[float] = []
        self._lanes = [[VmsWorld(work, size).lanes for size in self._sizes] for _ in range(threads.count)]

    def fitness(self, members: Sequence[F64], starts: I64) -> tuple[list[float], int]:
        """(minus the goal per member, decisions made)."""
        plans = [planned_runs(self._work, size, starts) for size in self._sizes]
        waits, decisions = self._waits(members, plans)
        found = [
            -float(np.mean([self._goal(waits[m, s]) for s in range(len(plans))])) for m in range(len(members))
        ]
        return found, decisions

    def validate(self, weights: F64, part: tuple[int, int]) -> dict[str, float]:
        """% less total wait (trimmed mean) than the best rule's, by size, from the validation starts."""
        if not self._validation:
            starts = evenly(*part, self._config.validation_starts, 0.5)
            self._validation = [planned_runs(self._work, size, starts) for size in self._sizes]
            rules = [rule_policy(name) for name in RULES]
            self._best_rule = [min(map(trimmed_mean, wait_times(plan, rules))) for plan in self._validation]
        waits, _ = self._waits([weights], self._validation)
        return {
            f"{size.first_servers} servers": 100.0 * (1.0 - trimmed_mean(found) / max(rule, 1.0))
            for size, found, rule in zip(self._sizes, waits[0], self._best_rule, strict=True)
        }

    def _waits(self, members: Sequence[F64], plans: Sequence[VmRuns]) -> tuple[F64, int]:
        """Total waits [member, size, start]."""
        waits = np.zeros((len(members), len(plans), plans[0].starts.size))
        decided = np.zeros((len(members), len(plans)), dtype=np.int64)

        def play(thread: int, job: int) -> None:
            member, size = divmod(job, len(plans))
            rule = VmRulePolicy("candidate", LEARNED, weights=members[member]).new_rule()
            plan = (plans[size].starts, plans[size].limits)
            lanes = self._lanes[thread][size]
            decided[member, size] = total_waits(self._work, lanes, rule, plan, waits[member, size])

        self._threads.each(play, len(members) * len(plans))
        return waits, int(decided.sum())

    def _goal(self, waits: F64) -> float:
        return float(np.log1p(waits).mean()) if self._config.goal == "log" else trimmed_mean(waits)
