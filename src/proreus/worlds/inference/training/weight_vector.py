"""The weights of the learned controller that an evolution strategy moves, as one vector around its start.

Every figure of the plan has its level and a few features that it may depend on; moving all weights would cost
more tries than the rest is worth. The time of day is left out: windows do not know it.
"""

from __future__ import annotations

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.worlds.inference.encoding.pools import CONTEXT, FEATURES
from proreus.worlds.inference.policies.knobs import (
    ALARM,
    BIAS,
    CAUTION,
    EVENING,
    HOUR,
    KNOBS,
    LENDING,
    PATIENCE,
    RETURN,
    TREND,
    USE,
    WEIGHT,
    WORK_OFF,
    Knob,
    first_knobs,
)

_ONE = "one instance, as a share of the pool"
_PROMPTS, _TOKENS = "computes prompts", "generates tokens"
_LIKELY = "log likely most over what is expected"
_HIGHEST = "log highest of the last hour over the level"
_STARTING = "share of the pool that is starting"
_DEPENDS: dict[Knob, tuple[str, ...]] = {
    USE: (_PROMPTS, _ONE, _LIKELY, _HIGHEST),
    CAUTION: (_PROMPTS, _ONE, _HIGHEST),
    TREND: (),
    ALARM: (),
    HOUR: (_HIGHEST,),
    RETURN: (_PROMPTS, _LIKELY),
    WORK_OFF: (_STARTING,),
    PATIENCE: (_ONE, _HIGHEST),
    LENDING: (_TOKENS,),
    EVENING: (),
}
_INPUTS = (*FEATURES, *CONTEXT)
_BIAS_STEP, _WEIGHT_STEP = 0.7, 0.7
_PLACES = [(row, _INPUTS.index(name)) for row, knob in enumerate(KNOBS) for name in _DEPENDS[knob]]
SIZE = len(KNOBS) + len(_PLACES)


def tensors_of(vector: F64) -> Arrays:
    """The network at a vector, as checkpoints keep it."""
    tensors = first_knobs()
    tensors[BIAS] += (_BIAS_STEP * vector[: len(KNOBS)]).astype(np.float32)
    for (row, column), value in zip(_PLACES, vector[len(KNOBS) :].tolist(), strict=True):
        tensors[WEIGHT][row, column] += np.float32(_WEIGHT_STEP * value)
    return tensors
