"""What an evolution strategy learns of virtual machines: the weights of the scorer, from a rule on.

With all weights zero every place scores alike and the first one is taken, so the search starts at first fit,
or nearly at worst fit where machines are turned away. One generation draws starts evenly over the training
part of the trace, with a new offset each time, and ranks its members by what they come to from these starts:
the same for all members. Where machines wait that is the mean logarithm of the total waiting time, which the
few starts from which everyone waits for days do not rule; `objective` says what it is elsewhere. The
mean of the population is judged on the validation part. The test part is never touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64, I64
from proreus.learning.device import Device
from proreus.learning.es import check_search
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError
from proreus.worlds.vms.encoding.figures import Stage
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.model import Full
from proreus.worlds.vms.play import RUN_PLACED, brief_runs, briefly
from proreus.worlds.vms.policies.adaptive import by_load
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.policies.columns import GAPS, LEARNED, WORST_FIT
from proreus.worlds.vms.policies.experts import VmScorer
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.columns import VmLanes
from proreus.worlds.vms.simulation.runs import VmRuns, planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions, VmsWorld, with_servers
from proreus.worlds.vms.training.objective import Aim, Scale, ahead, best_of
from proreus.worlds.vms.training.training_trace import (
    CONFIRMED_EPISODES,
    RULES,
    Purpose,
    Stretch,
    TrainingTrace,
    held_out,
    training_stretches,
)

_USUAL_LIMIT = 25_000
_SPREADS = "scarcer free here"
"""The feature that, alone, is worst fit."""
_STEEP, _STEEP_GAPS = 10.0, 3.0
"""Of a rule that a search begins with: the first population's other weights, of width `sigma`, bend it."""


Weighs = Literal["places", "gaps"]
Planned = list[tuple[TrainingTrace, VmRuns]]
"""Runs on one size of cluster, by trace."""
Rater = Callable[[Sequence[F64], Planned], list[F64]]
"""What every run came to, [start, 3], of each vector of weights."""


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
    traces: int = 1
    """Generated machines: 1 trace for the whole search, or so many new ones for every generation."""
    starts: int = 240
    """Runs per member, generation and size, on all traces together."""
    validation_starts: int = 800
    """Runs by which the mean is judged, for each size."""
    confirm_starts: int = 200
    """Runs that say, at the end, how much better the best is than the start, for each size; in 20 groups."""
    evaluate_every: int = 5
    """Generations between judgements."""
    limit: int = 0
    """Machines of a run at most; 0: SPANE's length where machines wait, 25,000 elsewhere."""
    stage: Stage = "both"
    """Where machines are turned away: the policy is for all times, or for when the servers were calm or
    crowded lately (full three times in ten); at other times worst fit decides."""
    weighs: Weighs = "places"
    """What the scorer sees: the server as the machine would leave it, and the places lost for typical sizes;
    or ("gaps") out of which gaps the machine takes its room."""
    goal: Scale = "log"
    """What to make better: the logarithm of the deciding measure, or ("trimmed") the measure itself."""
    seed: int = 1
    """Seed of the search."""
    device: Device = "cpu"
    """Where members are rated: on the host's cores, or all at once on a GPU. auto: there, where there is one
    and it has the scorer (`weighs` places, for both stages)."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "traces", "starts", "validation_starts", "confirm_starts")
        if min(self.servers, default=1) < 1:
            raise UsageError("servers: sizes of at least 1")
        if self.limit < 0:
            raise UsageError(f"limit: {self.limit} is negative")


class VmsGoal:
    """Plays weight vectors on workers, each size of cluster by itself."""

    def __init__(
        self,
        config: VmsESConfig,
        trace: TrainingTrace,
        options: VmsOptions,
        pool: Executor,
        rater: Rater | None = None,
    ) -> None:
        """rater: plays whole populations elsewhere; None: members on the workers of the pool."""
        if trace.file is not None and config.traces > 1:
            raise UsageError(f"traces: {config.traces} are for generated machines; a recorded trace is one")
        self._config, self._trace, self._pool, self._rater = config, trace, pool, rater
        self._sizes = [with_servers(options, count) for count in config.servers] or [options]
        if config.stage != "both" and options.full != "reject":
            raise UsageError(f"stage: {config.stage} means something where machines are turned away alone")
        self._stage = config.stage
        self._full, self._aim = options.full, Aim(options.full, config.goal)
        self._limit = config.limit or (0 if options.full == "wait" else _USUAL_LIMIT)
        self._validation: list[Planned] = []
        self._best_rule: list[float] = []
        self.start = start_of(options.full, config.weighs)

    def draw(self, random: np.random.Generator) -> list[Stretch]:
        """Starts in the training part."""
        return training_stretches(self._trace, self._config.starts, self._config.traces, random)

    def fitness(self, members: Sequence[F64], drawn: list[Stretch]) -> tuple[list[float], dict[str, int]]:
        """Minus the aim per member, and the decisions made."""
        runs, decisions = self._runs(members, self._planned(drawn))
        fitness = [-float(np.mean([self._aim.cost(rows) for rows in of_member])) for of_member in runs]
        return fitness, {"decisions": decisions}

    def validate(self, mean: F64) -> dict[str, float]:
        """How far ahead of the best rule (see `objective.ahead`), by size, from the validation starts."""
        measure = self._aim.measure
        if not self._validation:
            self._validation = self._held_out("choose", self._config.validation_starts)
            for planned in self._validation:
                measures = [measure(rows) for rows in _ruled(planned)]
                self._best_rule.append(measures[best_of(self._full, measures)])
        (runs,), _ = self._runs([mean], self._validation)
        return {
            f"{size.first_servers} servers": ahead(self._full, measure(rows), rule)
            for size, rows, rule in zip(self._sizes, runs, self._best_rule, strict=True)
        }

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same for each group of runs on which nothing is chosen."""
        measure = self._aim.measure
        held = self._held_out("confirm", self._config.confirm_starts)
        (runs,), _ = self._runs([tensors["weights"]], held)
        gains = {}
        for size, planned, ours in zip(self._sizes, held, runs, strict=True):
            groups = np.array_split(np.arange(len(ours)), min(CONFIRMED_EPISODES, len(ours)))
            ruled = _ruled(planned)
            best = ruled[best_of(self._full, [measure(rows) for rows in ruled])]
            gains[f"{size.first_servers} servers"] = np.array(
                [ahead(self._full, measure(ours[group]), measure(best[group])) for group in groups]
            )
        return gains

    def tensors(self, mean: F64) -> Arrays:
        return {"weights": self._scorer(mean).weights}

    def _scorer(self, member: F64) -> VmScorer:
        match self._config.weighs:
            case "places":
                return VmScorer(LEARNED, member)
            case "gaps":
                return VmScorer(GAPS, member)
            case unknown:
                assert_never(unknown)

    def _held_out(self, purpose: Purpose, starts: int) -> list[Planned]:
        return self._planned(held_out(self._trace, purpose, starts, self._config.traces))

    def _planned(self, stretches: Sequence[Stretch]) -> list[Planned]:
        """The runs from these starts, for each size of cluster."""
        return [
            [
                (trace, planned_runs(trace.work(size.double), size, starts, self._limit))
                for trace, starts in stretches
            ]
            for size in self._sizes
        ]

    def _runs(self, members: Sequence[F64], planned: Sequence[Planned]) -> tuple[list[list[F64]], int]:
        """(what every run came to, [start, 3], of each member and size; decisions made)."""
        if self._rater is not None:
            weights = [self._scorer(member).weights for member in members]
            by_size = [self._rater(weights, of_size) for of_size in planned]
            placed = sum(float(rows[:, RUN_PLACED].sum()) for of_size in by_size for rows in of_size)
            return [list(of_member) for of_member in zip(*by_size, strict=True)], int(placed)
        jobs = [
            [
                [
                    self._pool.submit(
                        member_runs,
                        trace,
                        runs.options,
                        (self._scorer(member), self._stage),
                        (runs.starts, runs.limits),
                    )
                    for trace, runs in of_size
                ]
                for of_size in planned
            ]
            for member in members
        ]
        results = [[[job.result() for job in of_size] for of_size in of_member] for of_member in jobs]
        rows = [[np.concatenate([run for run, _ in of_size]) for of_size in member] for member in results]
        return rows, sum(made for member in results for of_size in member for _, made in of_size)


def why_on_the_host(config: VmsESConfig) -> str | None:
    """What of the settings no device has, in one line; None: it has all."""
    if config.weighs != "places":
        return "--device: a scorer of gaps is rated on the host's cores; use cpu"
    return None if config.stage == "both" else f"--device: stage {config.stage} is for the host's cores"


def _ruled(planned: Planned) -> list[F64]:
    """For each of the opponents what every run came to."""
    by_trace = [briefly(runs, [rule_policy(name) for name in RULES]) for _, runs in planned]
    return [np.concatenate(of_rule) for of_rule in zip(*by_trace, strict=True)]


def start_of(full: Full, weighs: Weighs = "places") -> F64:
    """The weights that a search begins with, those of a strong rule.

    All zero they are first fit. Where machines are turned away it is worst fit, the strongest rule there (not
    quite with places: of two NUMA nodes that give the same it looks at the fuller one alone).
    """
    match weighs:
        case "places":
            weights = np.zeros(len(FEATURES))
            if full == "reject":
                weights[FEATURES.index(_SPREADS)] = _STEEP
        case "gaps":
            weights = np.zeros(len(GAP_FEATURES))
            if full == "reject":
                weights[GAP_FEATURES.index(_SPREADS)] = _STEEP_GAPS
        case unknown:
            assert_never(unknown)
    return weights


_OF_THREAD = threading.local()
"""VmLanes to play in: threads share the trace, not these."""
_MOST_LANES = 8
"""Kept by a thread: many traces come and go."""


def _candidate(scorer: VmScorer, stage: Stage) -> VmRulePolicy:
    """Decides when it is trained to; else worst fit does."""
    own = VmRulePolicy("candidate", scorer.kind, weights=scorer.weights)
    other = VmRulePolicy("other", WORST_FIT)
    match stage:
        case "both":
            return own
        case "calm":
            return by_load(other, own)
        case "crowded":
            return by_load(own, other)
        case unknown:
            assert_never(unknown)


def member_runs(
    trace: TrainingTrace, options: VmsOptions, member: tuple[VmScorer, Stage], plan: tuple[I64, I64]
) -> tuple[F64, int]:
    """(what each run came to, decisions made) of one member, wherever it is played."""
    # What comes through Ray is read-only; kernels are compiled for arrays that may be written.
    starts, limits = (array.copy() for array in plan)
    rule = _candidate(*member).new_rule()
    outcomes = np.zeros((starts.size, 3))
    lanes = _own_lanes(trace, options)
    decisions = brief_runs(trace.work(options.double), lanes, rule, (starts, limits), outcomes)
    return outcomes, int(decisions)


def _own_lanes(trace: TrainingTrace, options: VmsOptions) -> VmLanes:
    known: dict[tuple[TrainingTrace, VmsOptions], VmLanes] = _OF_THREAD.__dict__.setdefault("lanes", {})
    if (trace, options) not in known:
        if len(known) >= _MOST_LANES:
            del known[next(iter(known))]
        known[trace, options] = VmsWorld(trace.work(options.double), options).lanes
    return known[trace, options]
