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
from proreus.worlds.vms.model import DoubleRule, VmTrace
from proreus.worlds.vms.scenarios import VmScenario, trace_of
from proreus.worlds.vms.simulation.columns import Work
from proreus.worlds.vms.simulation.world import compile_trace
from proreus.worlds.vms.traces.generate import generate_vms
from proreus.worlds.vms.traces.huawei import Split, split_range

RULES = ("first_fit", "best_fit", "balance_fit", "worst_fit")
"""The opponents."""


@dataclass(frozen=True)
class TrainingTrace:
    """A trace by where it comes from; workers elsewhere load it themselves."""

    file: Path | None = None
    """None: generated machines."""
    machines: int = 110_000
    seed: int = 1_000_000
    """Far from those of comparisons."""
    density: float = 1.0

    def trace(self) -> VmTrace:
        """The machines."""
        return trace_of(self.file) if self.file is not None else _generated(self)

    def work(self, double: DoubleRule) -> Work:
        """The machines as columns."""
        return _compiled(self, double)

    def part(self, part: Split) -> tuple[int, int]:
        """[first, last) machine at which runs of the part start."""
        return split_range(part, len(self.trace()))


@lru_cache(maxsize=3)
def _generated(trace: TrainingTrace) -> VmTrace:
    return generate_vms(trace.machines, trace.seed, density=trace.density)


@lru_cache(maxsize=3)
def _compiled(trace: TrainingTrace, double: DoubleRule) -> Work:
    return compile_trace(trace.trace(), double)


def training_trace(scenario: VmScenario) -> TrainingTrace:
    """That of a scenario."""
    if scenario.file is None:
        return TrainingTrace(density=float(scenario.load_factor))
    if scenario.load_factor > 1:
        raise UsageError(
            f"scenario {scenario.name!r}: training is on the load of the trace itself, without x"
        )
    return TrainingTrace(scenario.file)


def the_one(scenarios: Sequence[VmScenario]) -> VmScenario:
    """The scenario that is trained on."""
    if len(scenarios) != 1:
        raise UsageError("train on one scenario of virtual machines at a time")
    return scenarios[0]


Purpose = Literal["choose", "confirm"]
"""What held-out runs are for: checkpoints are chosen on some, and confirmed on others."""
CONFIRMED_EPISODES = 20
"""Groups of neighbouring runs, each one episode: single runs overlap with their neighbours."""


def held_out(trace: TrainingTrace, purpose: Purpose) -> tuple[TrainingTrace, int, int]:
    """(trace, [first, last) machine at which runs start): generated machines are confirmed on a trace of
    their own, a recorded trace on the last third of its validation part."""
    first, last = trace.part("valid")
    if trace.file is None:
        return (trace if purpose == "choose" else replace(trace, seed=trace.seed + 1)), first, last
    border = last - (last - first) // 3
    return (trace, first, border) if purpose == "choose" else (trace, border, last)


def evenly(first: int, last: int, count: int, offset: float) -> I64:
    """So many starts from `first` to `last` - 1, evenly spaced and moved by `offset` of a gap."""
    return (first + (np.arange(count) + offset) * (last - first) / count).astype(np.int64)
