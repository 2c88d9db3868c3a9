"""A forecast that knows its doubt: quantiles of a load for when a start would be done, learned across loads.

A small network sees the recent past in ratios (`encoding.load_history` makes them) and answers with ratios to
the level: what the load will be then, the most that it will be until then, and the most within three starts.
NumPy alone; `training/load_forecast.py` fits it to loads drawn by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64

QUANTILES = (0.1, 0.5, 0.9, 0.97, 0.99)
SCORES = (-1.2816, 0.0, 1.2816, 1.8808, 2.3263)
"""Of a normal number at those quantiles: between and beyond them a doubt is asked for in these."""
TARGETS = ("then", "peak", "peak of three")
THEN, PEAK, PEAK_OF_THREE = range(3)
HIDDEN = 64
MEAN, SPREAD = "forecast.mean", "forecast.spread"
LAYERS = tuple(f"forecast.{place}" for place in range(3))
_SHIFT = 1.0
"""Distances between quantiles are small before anything is learned."""
_FURTHEST = 3.5
"""Logarithm of a ratio beyond which nothing is forecast."""


def quantiles_of(raw: F64) -> F64:
    """[..., targets, quantiles] that never cross, from what the last layer says."""
    shaped = raw.reshape(*raw.shape[:-1], len(TARGETS), len(QUANTILES))
    median = shaped[..., 1:2]
    distance = np.logaddexp(0.0, shaped - _SHIFT)
    above = np.cumsum(distance[..., 2:], axis=-1)
    return np.concatenate([median - distance[..., :1], median, median + above], axis=-1)


@dataclass(frozen=True, eq=False)
class LoadForecaster:
    """The network."""

    mean: F64
    spread: F64
    weights: tuple[F64, ...]
    biases: tuple[F64, ...]

    def quantiles(self, features: F64) -> F64:
        """[targets, quantiles] logarithms of ratios to the level."""
        hidden = (features - self.mean) / self.spread
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(weight @ hidden + bias)
        raw = self.weights[-1] @ hidden + self.biases[-1]
        return np.clip(quantiles_of(raw), -_FURTHEST, _FURTHEST)


def at_score(quantiles: F64, score: float) -> float:
    """What is exceeded as rarely as a normal number exceeds that score; beyond the last, on their line."""
    place = int(np.clip(np.searchsorted(SCORES, score) - 1, 0, len(SCORES) - 2))
    low, high = SCORES[place], SCORES[place + 1]
    share = (score - low) / (high - low)
    return float((1.0 - share) * quantiles[place] + share * quantiles[place + 1])


def tensors_of(forecaster: LoadForecaster) -> dict[str, NDArray[Any]]:
    """As checkpoints keep it."""
    tensors = {MEAN: forecaster.mean, SPREAD: forecaster.spread}
    for name, weight, bias in zip(LAYERS, forecaster.weights, forecaster.biases, strict=True):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = weight, bias
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def forecaster_of(tensors: Mapping[str, NDArray[Any]], inputs: int) -> LoadForecaster:
    """Back from `tensors_of`; a ValueError says what is wrong."""
    sizes = (inputs, HIDDEN, HIDDEN, len(TARGETS) * len(QUANTILES))
    shapes: dict[str, tuple[int, ...]] = {MEAN: (inputs,), SPREAD: (inputs,)}
    for place, name in enumerate(LAYERS):
        shapes[f"{name}.weight"] = (sizes[place + 1], sizes[place])
        shapes[f"{name}.bias"] = (sizes[place + 1],)
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            raise ValueError(f"{name} needs finite numbers of shape {shape}")
    found = {name: tensors[name].astype(np.float64) for name in shapes}
    if (found[SPREAD] <= 0.0).any():
        raise ValueError(f"{SPREAD} needs numbers above 0")
    return LoadForecaster(
        found[MEAN],
        found[SPREAD],
        tuple(found[f"{name}.weight"] for name in LAYERS),
        tuple(found[f"{name}.bias"] for name in LAYERS),
    )
