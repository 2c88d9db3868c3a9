"""The weights of the learned controller as checkpoints keep them, and as its kernel wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64
from proreus.kernels.structs import pack
from proreus.worlds.inference.encoding.load_history import SIZE
from proreus.worlds.inference.policies.reserve import FIGURES, HIGH, INPUTS, LOW, ReserveNet
from proreus.worlds.inference.state.quantile_forecast import LoadForecaster, forecaster_of

WEIGHT, BIAS = "figures.weight", "figures.bias"
FIRST_FIGURES = np.array([0.8, 0.6, 0.2, 0.93, 0.8, 0.3, 25.0, 1.0, 0.2, 0.0, 0.02])
"""Where a search begins: found by trying a few hundred on runs for training."""


def raised(figures: F64) -> F64:
    """The numbers without bounds that stand for figures."""
    share = (figures - LOW) / (HIGH - LOW)
    return np.log(share / (1.0 - share))


def first_figures() -> dict[str, NDArray[Any]]:
    """The same figures whatever is seen."""
    return {
        WEIGHT: np.zeros((len(FIGURES), INPUTS), dtype=np.float32),
        BIAS: raised(FIRST_FIGURES).astype(np.float32),
    }


def packed(forecaster: LoadForecaster, weight: F64, bias: F64) -> ReserveNet:
    """As the kernel wants them."""
    first, second, last = forecaster.weights
    biases = forecaster.biases
    return pack(
        ReserveNet(
            forecaster.mean,
            forecaster.spread,
            first,
            biases[0],
            second,
            biases[1],
            last,
            biases[2],
            np.ascontiguousarray(weight, dtype=np.float64),
            np.ascontiguousarray(bias, dtype=np.float64),
        )
    )


def net_of(tensors: Mapping[str, NDArray[Any]]) -> ReserveNet:
    """From a checkpoint; a ValueError says what is wrong."""
    forecaster = forecaster_of(tensors, SIZE)
    for name, shape in ((WEIGHT, (len(FIGURES), INPUTS)), (BIAS, (len(FIGURES),))):
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            raise ValueError(f"{name} needs finite numbers of shape {shape}")
    return packed(forecaster, tensors[WEIGHT].astype(np.float64), tensors[BIAS].astype(np.float64))
