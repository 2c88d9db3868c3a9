"""The trace that learners of the world `vms` train and are judged on, in its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import Split, split_range
from proreus.worlds.vms.model import DoubleRule, VmTrace
from proreus.worlds.vms.scenarios import VmScenario, last_start, trace_of, trace_of_part
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.world import compile_trace

RULES = ("first_fit", "best_fit", "balance_fit", "worst_fit")
"""The opponents."""


_KEPT = 64
"""Traces in memory: those of a generation, and those that are judged on."""


@dataclass(frozen=True)
class TrainingTrace:
    """A trace by where it comes from; workers elsewhere load it themselves."""

    file: Path | None = None
    """None: generated machines."""
    machines: int = 110_000
    seed: int = 1_000_000
    """Far from those of comparisons."""
    density: float = 1.0
    alone: Split | None = None
    """Of a file: this part of it, as a trace by itself; None: the whole, and runs may leave their part."""

    def trace(self) -> VmTrace:
        if self.file is None:
            return _generated(self)
        return trace_of(self.file) if self.alone is None else trace_of_part(self.file, self.alone)

    def work(self, double: DoubleRule) -> VmWork:
        """The machines as columns."""
        return _compiled(self, double)

    def part(self, part: Split) -> tuple[int, int]:
        """[first, last) machine at which runs of the part start."""
        if self.alone is not None:
            return 0, last_start(len(self.trace()))
        return split_range(part, len(self.trace()))

    def within(self, part: Split) -> TrainingTrace:
        """Where runs of the part are played."""
        return self if self.alone is None else replace(self, alone=part)


@lru_cache(maxsize=_KEPT)
def _generated(trace: TrainingTrace) -> VmTrace:
    return generate_vms(trace.machines, trace.seed, density=trace.density)


@lru_cache(maxsize=_KEPT)
def _compiled(trace: TrainingTrace, double: DoubleRule) -> VmWork:
    return compile_trace(trace.trace(), double)


def training_trace(scenario: VmScenario) -> TrainingTrace:
    """That of a scenario."""
    if scenario.file is None:
        return TrainingTrace(density=float(scenario.load_factor))
    if scenario.load_factor > 1:
        raise UsageError(
            f"scenario {scenario.name!r}: training is on the load of the trace itself, without x"
        )
    return TrainingTrace(scenario.file, alone="train" if scenario.apart else None)


def the_one(scenarios: Sequence[VmScenario]) -> VmScenario:
    """The scenario that is trained on."""
    if len(scenarios) != 1:
        raise UsageError("train on one scenario of virtual machines at a time")
    return scenarios[0]


Purpose = Literal["choose", "confirm"]
"""What held-out runs are for: checkpoints are chosen on some, and confirmed on others."""
CONFIRMED_EPISODES = 20
"""Groups of neighbouring runs, each one episode: single runs overlap with their neighbours."""


Stretch = tuple[TrainingTrace, I64]
"""A trace, and the machines of it at which runs start."""
_SHORT = 40_000
"""Machines of each trace, where there are many."""
_CHOSEN, _CONFIRMED = 500_000, 600_000
"""What lies between the seeds of traces to train on and those of traces to judge on."""


def training_stretches(
    trace: TrainingTrace, starts: int, traces: int, random: np.random.Generator
) -> list[Stretch]:
    """What one generation is tried on: the training part of the trace, or so many other traces."""
    offset = float(random.random())
    if traces == 1:
        own = trace.within("train")
        return [(own, evenly(*own.part("train"), starts, offset))]
    return _spread(trace, 1 + random.integers(0, _CHOSEN - 1, traces), starts, offset)


def held_out(trace: TrainingTrace, purpose: Purpose, starts: int, traces: int) -> list[Stretch]:
    """What is judged on. A recorded trace is confirmed on the last third of its validation part, generated
    machines on a trace of their own; where many traces are trained on, so many others as there are episodes.
    """
    if traces > 1:
        first = _CHOSEN if purpose == "choose" else _CONFIRMED
        return _spread(trace, first + np.arange(CONFIRMED_EPISODES), starts, 0.5)
    trace = trace.within("valid")
    first, last = trace.part("valid")
    if trace.file is None:
        on = trace if purpose == "choose" else replace(trace, seed=trace.seed + 1)
        return [(on, evenly(first, last, starts, 0.5))]
    border = last - (last - first) // 3
    part = (first, border) if purpose == "choose" else (border, last)
    return [(trace, evenly(*part, starts, 0.5))]


def _spread(trace: TrainingTrace, apart: I64, starts: int, offset: float) -> list[Stretch]:
    """Generated traces that lie so far from this one, with their share of the starts, in their first half."""
    each = evenly(0, _SHORT // 2, -(-starts // apart.size), offset)
    return [
        (replace(trace, machines=_SHORT, seed=trace.seed + distance), each) for distance in apart.tolist()
    ]


def evenly(first: int, last: int, count: int, offset: float) -> I64:
    """So many starts from `first` to `last` - 1, evenly spaced and moved by `offset` of a gap."""
    return (first + (np.arange(count) + offset) * (last - first) / count).astype(np.int64)
