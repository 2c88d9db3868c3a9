"""The network of the learned controller: from what is seen of a pool to the figures of its capacity plan.

One layer with bounded outputs. Whatever its weights are, a plan stays within bounds that an operator would
accept; without weights it is the plan that training starts from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, F64
from proreus.worlds.inference.encoding.pools import FEATURES, SIZES

WEIGHT, BIAS = "knobs.weight", "knobs.bias"
INPUTS = sum(SIZES)
_TOKENS_ARE_NOT_LENT = -6.0
"""Routers send prompts elsewhere when a queue is long, and tokens only when memory is full, which is late."""
_STEEPEST = 30.0
"""Beyond it a sigmoid is flat in double precision."""


@dataclass(frozen=True)
class Knob:
    """A figure of the plan: its bounds, and where training starts."""

    name: str
    low: float
    high: float
    start: float
    in_powers: bool = False
    """Whether it moves by factors, as times do."""

    def at(self, raised: float) -> float:
        """The value that a number without bounds stands for."""
        share = 1.0 / (1.0 + math.exp(-min(max(raised, -_STEEPEST), _STEEPEST)))
        if self.in_powers:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    @property
    def raised(self) -> float:
        """The number that stands for the start."""
        share = (self.start - self.low) / (self.high - self.low)
        if self.in_powers:
            share = math.log(self.start / self.low) / math.log(self.high / self.low)
        return math.log(share / (1.0 - share))


USE = Knob("use", 0.45, 1.0, 0.88)
"""The share of what an instance can do that is asked of it."""
CAUTION = Knob("caution", 0.0, 2.0, 0.2)
"""How much of the way from the expected load to the likely most is planned for."""
TREND = Knob("trend", 0.0, 1.5, 0.75)
"""How much of the forecast's change is believed."""
ALARM = Knob("alarm", 0.0, 1.5, 1.0)
"""How much of a sudden rise above the level is believed."""
HOUR = Knob("hour", 0.0, 1.0, 0.1)
"""How much of what followed an hour ago is believed to follow again."""
RETURN = Knob("return", 0.0, 1.6, 1.2)
"""Share of the highest load of the last hour that instances must be able to bear, all of them busy."""
WORK_OFF = Knob("work off", 10.0, 600.0, 60.0, in_powers=True)
"""Seconds in which a backlog is to be gone."""
PATIENCE = Knob("patience", 20.0, 1_200.0, 180.0, in_powers=True)
"""Seconds that survivors must have been able to bear the load before one is drained."""
LENDING = Knob("lending", 0.0, 1.0, 0.8)
"""Instances that a pool may be short of because the other one has room: pools lend each other instances."""
EVENING = Knob("evening", 0.0, 0.9, 0.6)
"""Share of KV memory below which requests that wait for it say that a pool is loaded unevenly."""
KNOBS = (USE, CAUTION, TREND, ALARM, HOUR, RETURN, WORK_OFF, PATIENCE, LENDING, EVENING)


@dataclass(frozen=True, eq=False)
class Knobs:
    """The network."""

    weight: F64
    """[knobs, inputs]"""
    bias: F64

    def of(self, row: F32, context: F32) -> dict[Knob, float]:
        """The figures for one pool."""
        raised = self.weight @ np.concatenate([row, context]).astype(np.float64) + self.bias
        return {knob: knob.at(float(value)) for knob, value in zip(KNOBS, raised, strict=True)}


def first_knobs() -> dict[str, NDArray[Any]]:
    """The tensors that training starts from."""
    weight = np.zeros((len(KNOBS), INPUTS), dtype=np.float32)
    weight[KNOBS.index(LENDING), FEATURES.index("generates tokens")] = _TOKENS_ARE_NOT_LENT
    return {
        WEIGHT: weight,
        BIAS: np.array([knob.raised for knob in KNOBS], dtype=np.float32),
    }


def knobs_of(tensors: Mapping[str, NDArray[Any]]) -> Knobs:
    """The network of a checkpoint; a ValueError names a tensor that is missing, wrong or not finite."""
    found = []
    for name, first in first_knobs().items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != first.shape or not np.isfinite(tensor).all():
            raise ValueError(f"{name}: needs finite numbers of shape {first.shape}")
        found.append(tensor.astype(np.float64))
    return Knobs(*found)
