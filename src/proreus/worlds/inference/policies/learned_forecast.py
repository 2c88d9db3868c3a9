"""The learned forecast of loads for a rule: what `learned` expects, with the margins of `predictive`."""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.policies.reserve import ReserveNet, exceeded_at, foreseen_of
from proreus.worlds.inference.policies.rules.predictive import Foresee, Likely, Margins


def learned_quantiles(net: ReserveNet) -> Foresee:
    """Of each pool by itself: the median, and what is exceeded as rarely as the margins want."""

    def foresee(history: F64, steps: int, margins: Margins) -> Likely:
        expected, most = np.zeros(history.shape[1]), np.zeros(history.shape[1])
        for place, series in enumerate(history.T):
            found = foreseen_of(net, np.ascontiguousarray(series, dtype=np.float64), float(steps))
            expected[place] = found.level * math.exp(exceeded_at(found.quantiles[0], 0.0))
            most[place] = found.level * math.exp(exceeded_at(found.quantiles[0], margins.safety))
        return Likely(expected, np.log(most / expected) / margins.safety, most)

    return foresee
