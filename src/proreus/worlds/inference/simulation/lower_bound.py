"""What no controller can go below: the least weighed GPU-hours for requests that are all known beforehand.

A linear program over a relaxation of the simulator, so that every run is one of its solutions and costs at
least as much. Per step of time it has GPUs that serve, GPUs that become ready, and work that is done. What is
relaxed:

- A request costs at least its tokens times what a token costs in the fullest iteration that an instance can
  have, and the reading of its KV memory. Attention of prompts, the host and whatever is not batched best cost
  nothing.
- Work of a request that is served as promised is done between its arrival and its last promised token, by any
  GPU: pools, models, routing, memory and transfers do not bind. What prompts may have in common is free.
- GPUs are not whole instances. Those that start cost as long as a start takes; none is ever taken away.
- Requests that are missed cost nothing at all. Where instances are taken away, the bound is for controllers
  that keep a third of the promises at least.

For a share of missed requests m the program gives the least GPU-hours G(m), which fall with m; between two
shares the higher one's G and the lower one's penalty are a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, WorkError
from proreus.workers.highs import needed_highs, new_solver, run_solver
from proreus.worlds.inference.model.cluster import ClusterSpec, InstanceKind
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.timings import (
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    LayerProfile,
    knot,
)
from proreus.worlds.inference.simulation.cluster import TWO_POOLS, Timings
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.outcome import AS_MANY_AGAIN

_SHARES = (0.01, 0.02, 0.035, 0.06, 0.1, 0.16, 0.25, 0.4, 0.65, 1.0)
"""Of requests that are missed."""
_PIECES = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0)
"""Shares of a step's requests, the dearest first, at which the work that is saved by missing them bends."""


@dataclass(frozen=True)
class LowerBound:
    """Of one run."""

    weighed_gpu_hours: float
    gpu_hours: float
    """The least that serves as many as are wanted."""


@dataclass(frozen=True)
class _TokenCost:
    """GPU-seconds that no instance of a model goes below."""

    token: float
    context: float
    """Of a token that is generated, for each token before it."""


def lower_bound(
    trace: RequestTrace, spec: ClusterSpec, timings: Timings, options: ControlOptions
) -> LowerBound:
    """Over the intervals in which a controller decides."""
    horizon = math.ceil((trace.arrival[-1] + 1e-9) / options.interval) * options.interval
    step = max(options.interval, horizon / 2_000.0)
    program = _Program(trace, spec, options, step, horizon, gpu_seconds(trace, spec, timings))
    # Who lets all instances be taken away and starts none pays nothing and serves nobody: that is no bound.
    shares = _SHARES[:-1] if options.spot_seconds else _SHARES
    hours = [program.least(share) / 3_600.0 for share in shares]
    best, before = math.inf, 0.0
    for share, least in zip(shares, hours, strict=True):
        missing = max(options.wanted - (1.0 - before), 0.0)
        best = min(best, least * (1.0 + missing / AS_MANY_AGAIN))
        before = share
    return LowerBound(best, hours[0])


def gpu_seconds(trace: RequestTrace, spec: ClusterSpec, timings: Timings) -> F64:
    """[requests] that each takes at least."""
    names = list(dict.fromkeys(kind.model.name for kind in spec.kinds))
    costs = [
        [_token_cost(kind, timings[kind.timing]) for kind in spec.kinds if kind.model.name == name]
        for name in names
    ]
    token = np.array([min(cost.token for cost in kinds) for kinds in costs])[trace.model]
    context = np.array([min(cost.context for cost in kinds) for kinds in costs])[trace.model]
    prompt, output = trace.prompt.astype(np.float64), trace.output.astype(np.float64)
    computed = prompt.copy()
    if trace.prefix is not None and any(kind.prefix_cache for kind in spec.kinds):
        # A block that others have too may have been computed for them.
        _, place, counts = np.unique(trace.prefix.number, return_inverse=True, return_counts=True)
        shared = np.concatenate([[0], np.cumsum(counts[place] > 1)])
        computed -= (shared[trace.prefix.begin[1:]] - shared[trace.prefix.begin[:-1]]) * trace.prefix.tokens
    generated = output - 1.0
    read = generated * prompt + generated * (generated - 1.0) / 2.0
    return np.asarray(np.maximum(computed, 1.0) * token + generated * token + read * context)


def _token_cost(kind: InstanceKind, timing: object) -> _TokenCost:
    if not isinstance(timing, LayerProfile):
        raise UsageError("a lower bound needs timings by layers: a roofline or a profile")
    at, seconds = timing.dense_at, timing.dense_time
    if kind.engine == "chunked":
        dense = [float(np.interp(kind.token_limit, at, seconds)) / kind.token_limit]
        dense += [
            float(time / tokens)
            for tokens, time in zip(at, seconds, strict=True)
            if tokens <= kind.token_limit
        ]
    else:
        dense = [float(time / tokens) for tokens, time in zip(at, seconds, strict=True)]
        dense.append(float((seconds[-1] - seconds[-2]) / (at[-1] - at[-2])))
    pairs = np.array(
        [
            [knot(decodes, 1) * knot(context, FIRST_TOKENS) for context in range(1, CONTEXT_KNOTS)]
            for decodes in range(1, DECODE_KNOTS)
        ]
    )
    context = float((timing.attention[:, :, 1:, 1:] / pairs).min())
    return _TokenCost(kind.gpus * min(dense), kind.gpus * max(context, 0.0))


class _Program:
    """The relaxation of one run, solved for one share of missed requests after the other."""

    def __init__(
        self,
        trace: RequestTrace,
        spec: ClusterSpec,
        options: ControlOptions,
        step: float,
        horizon: float,
        work: F64,
    ) -> None:
        self._step, self._steps = step, max(round(horizon / step), 1)
        self._options, self._spec = options, spec
        weights = np.array([class_.weight for class_ in options.classes])[trace.service]
        ttft = np.array([class_.ttft for class_ in options.classes])[trace.service]
        tbt = np.array([class_.tbt for class_ in options.classes])[trace.service]
        begin = np.minimum((trace.arrival / step).astype(np.int64), self._steps - 1)
        last = ((trace.arrival + ttft + tbt * (trace.output - 1)) / step).astype(np.int64)
        # Few groups by how long they may take, each as patient as its most patient member.
        patience = last - begin
        group = np.ceil(np.log2(patience + 1.0)).astype(np.int64)
        self._asked = float(weights.sum())
        self._groups: list[tuple[int, int, F64, F64]] = []
        for number in np.unique(begin * 64 + group):
            mine = np.flatnonzero(begin * 64 + group == number)
            cheap = np.argsort(-work[mine] / weights[mine], kind="stable")
            order = mine[cheap]
            self._groups.append(
                (
                    int(begin[order[0]]),
                    min(int(begin[order[0]] + patience[order].max()), self._steps),
                    np.cumsum(weights[order]),
                    np.cumsum(work[order]),
                )
            )

    def least(self, missed: float) -> float:
        """GPU-seconds, where that share of the requests may be missed."""
        highs = needed_highs("a lower bound")
        solver = new_solver(highs)
        rows = _Rows()
        steps, step, options, kinds = self._steps, self._step, self._options, self._spec.kinds
        of_kind = {kind.name: kind for kind in kinds}
        first = float(sum(group.count * of_kind[group.kind].gpus for group in self._spec.groups))
        start = min(options.start.seconds(kind) for kind in kinds)
        fewest, largest = min(kind.gpus for kind in kinds), max(kind.gpus for kind in kinds)
        pools = 2 if self._spec.scheduler in TWO_POOLS else 1
        floor = 0.0 if options.spot_seconds else float(options.limits.least * pools * fewest)
        most = float(max(options.limits.most_in_total * largest, first))
        serving = [rows.column(step, 0.0, most) for _ in range(steps)]
        ready = [
            rows.column(start, 0.0, most if at * step >= options.interval + start - step else 0.0)
            for at in range(steps)
        ]
        longest = max(options.start.seconds(kind) for kind in kinds)
        ahead = math.ceil(longest / step) + 2
        held = 0.0 if options.spot_seconds else first * min(options.interval / step, 1.0)
        for at in range(steps):
            if at == 0:
                rows.add({serving[0]: 1.0}, held, first)
            else:
                rows.add({serving[at]: 1.0, serving[at - 1]: -1.0, ready[at]: -1.0}, -math.inf, 0.0)
            starting = {ready[later]: 1.0 for later in range(at + 1, min(at + ahead, steps))}
            rows.add(
                {serving[at]: 1.0, **starting}, floor if at * step >= options.interval else 0.0, math.inf
            )
        done: list[dict[int, float]] = [{column: -step} for column in serving]
        dropped: dict[int, float] = {}
        for begin, end, weight, work in self._groups:
            spread = {rows.column(0.0, 0.0, math.inf): 1.0 for _ in range(begin, min(end + 1, steps))}
            if end >= steps:  # what is under way at the end costs nothing
                spread[rows.column(0.0, 0.0, math.inf)] = 1.0
            for at, column in zip(range(begin, min(end + 1, steps)), list(spread), strict=False):
                done[at][column] = 1.0
            pieces = {}
            for low, high in pairwise(_PIECES):
                slope, width = _piece(weight, work, low, high)
                if width > 0.0:
                    column = rows.column(0.0, 0.0, width)
                    pieces[column], dropped[column] = slope, 1.0
            rows.add({**spread, **pieces}, float(work[-1]), math.inf)
        for use in done:
            rows.add(use, -math.inf, 0.0)
        rows.add(dropped, -math.inf, missed * self._asked)
        rows.give(solver, highs)
        run_solver(highs, solver)
        if solver.getModelStatus() != highs.HighsModelStatus.kOptimal:
            raise WorkError("the linear program of the lower bound has no solution")
        return float(solver.getInfo().objective_function_value)


def _piece(weight: F64, work: F64, low: float, high: float) -> tuple[float, float]:
    """(work that a missed request saves at most, requests) of a share of a group, the dearest first."""
    total = float(weight[-1])
    ends = [float(np.interp(share * total, np.r_[0.0, weight], np.r_[0.0, work])) for share in (low, high)]
    width = (high - low) * total
    return ((ends[1] - ends[0]) / width if width > 0.0 else 0.0), width


class _Rows:
    """A linear program, gathered column by column and row by row."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def column(self, cost: float, low: float, high: float) -> int:
        self._costs.append(cost)
        self._low.append(low)
        self._high.append(high)
        return len(self._costs) - 1

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        self._rows.append((row, low, high))

    def give(self, solver: Any, highs: Any) -> None:
        program = highs.HighsLp()
        program.num_col_, program.num_row_ = len(self._costs), len(self._rows)
        program.col_cost_ = np.array(self._costs)
        program.col_lower_, program.col_upper_ = np.array(self._low), np.array(self._high)
        program.row_lower_ = np.array([low for _, low, _ in self._rows])
        program.row_upper_ = np.array([high for _, _, high in self._rows])
        program.a_matrix_.format_ = highs.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.cumsum([0, *(len(row) for row, _, _ in self._rows)])
        program.a_matrix_.index_ = np.array([column for row, _, _ in self._rows for column in row])
        program.a_matrix_.value_ = np.array([value for row, _, _ in self._rows for value in row.values()])
        solver.passModel(program)
