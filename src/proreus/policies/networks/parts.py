"""Networks around a rule, for searches that move some weights: where tensors start, and their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64


@dataclass(frozen=True)
class Part:
    """One tensor of the network: where it starts, and how far a step of the search moves it."""

    name: str
    first: F64
    step: F64


def size_of(parts: tuple[Part, ...]) -> int:
    """How many weights the search moves."""
    return sum(int(np.count_nonzero(part.step)) for part in parts)


def tensors_of(parts: tuple[Part, ...], vector: F64) -> dict[str, np.ndarray[Any, Any]]:
    """The network at a vector, as checkpoints keep it."""
    found, at = {}, 0
    for part in parts:
        moved = part.step.ravel() != 0.0
        count = int(moved.sum())
        values = part.first.ravel().copy()
        values[moved] += part.step.ravel()[moved] * vector[at : at + count]
        found[part.name] = values.reshape(part.first.shape).astype(np.float32)
        at += count
    return found
