"""Networks around a rule, for searches that move some weights: where tensors start, and their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64


@dataclass(frozen=True)
class TensorPart:
    """One tensor of the network: where it starts, and how far a step of the search moves it."""

    name: str
    first: F64
    step: F64


def size_of(parts: tuple[TensorPart, ...]) -> int:
    """How many weights the search moves."""
    return sum(int(np.count_nonzero(part.step)) for part in parts)


def tensors_of(parts: tuple[TensorPart, ...], vector: F64) -> dict[str, np.ndarray[Any, Any]]:
    """The network at a vector, as checkpoints keep it."""
    tensors, at = {}, 0
    for part in parts:
        moved = part.step.ravel() != 0.0
        count = int(moved.sum())
        values = part.first.ravel().copy()
        values[moved] += part.step.ravel()[moved] * vector[at : at + count]
        tensors[part.name] = values.reshape(part.first.shape).astype(np.float32)
        at += count
    return tensors


def vector_of(parts: tuple[TensorPart, ...], tensors: Mapping[str, np.ndarray[Any, Any]]) -> F64 | None:
    """Back from `tensors_of`; None where the network is none of those around this rule."""
    coordinates = []
    for part in parts:
        tensor = tensors.get(part.name)
        if tensor is None or tensor.shape != part.first.shape:
            return None
        apart, step = tensor.ravel() - part.first.ravel(), part.step.ravel()
        moved = step != 0.0
        if not np.allclose(apart[~moved], 0.0, atol=1e-4):
            return None
        coordinates.append(apart[moved] / step[moved])
    return np.concatenate(coordinates)
