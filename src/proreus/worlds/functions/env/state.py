"""`self.state` of the document: its names over arrays, in the units that it says, and their space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from proreus.kernels.arrays import F32
from proreus.model.errors import UsageError
from proreus.worlds.functions.encoding.document import MOST_IO, ObservationPart
from proreus.worlds.functions.model import NodeKind
from proreus.worlds.functions.state.columns import CLIP

_INTEGERS = ("current_function_requests", "cluster_function_requests")
_BITS = "node_active"
_MOST_COUNT = np.iinfo(np.int32).max


class SchedulingState(dict[str, Any]):
    """A dict whose `copy` copies the arrays too: the document takes it for a deep one."""

    def copy(self) -> SchedulingState:
        """One that can be written to while this one stays as it is."""
        return SchedulingState({name: np.array(array) for name, array in self.items()})


def state_of(vector: F32, parts: tuple[ObservationPart, ...]) -> SchedulingState:
    """The numbers of a vector under the document's names."""
    state = SchedulingState()
    for part in parts:
        values = vector[part.begin : part.begin + part.size].reshape(part.shape)
        if part.name in _INTEGERS:
            state[part.name] = values.astype(np.int32)
        elif part.name == _BITS:
            state[part.name] = values.astype(np.int8)
        else:
            state[part.name] = values.copy()
    return state


def vector_of(state: Mapping[str, Any], parts: tuple[ObservationPart, ...]) -> F32:
    """The numbers of a state, one part behind the other."""
    pieces = [np.asarray(state[part.name], dtype=np.float32).reshape(-1) for part in parts]
    return np.concatenate(pieces)


def checked_state(state: Any, parts: tuple[ObservationPart, ...]) -> SchedulingState:
    """What a `_get_next_state` of one's own returned; a UsageError names what is missing."""
    if not isinstance(state, Mapping):
        raise UsageError(f"_get_next_state: returned {type(state).__name__}, not a dict like self.state")
    for part in parts:
        if part.name not in state or np.shape(state[part.name]) != part.shape:
            raise UsageError(f"_get_next_state: {part.name!r} is missing or not of shape {part.shape}")
    return state if isinstance(state, SchedulingState) else SchedulingState(state)


def state_space(kinds: tuple[NodeKind, ...], parts: tuple[ObservationPart, ...]) -> spaces.Dict:
    """Of the document's names; all boxes have bounds."""
    cores = np.float32(max(kind.cpu for kind in kinds) / 1_000)
    memory = np.float32(max(kind.memory for kind in kinds) / 1_024)
    price = np.float32(max(kind.price for kind in kinds) / 1e6)
    sizes = np.array([cores, memory], dtype=np.float32)
    high: dict[str, Any] = {
        "node_utilization": np.float32(1.0),
        "node_capacity": sizes,
        "node_price": price,
        "node_deployed": sizes,
        "current_function_request": sizes,
        "current_function_io": np.float32(MOST_IO),
        "current_function_rart": np.float32(CLIP),
    }
    boxes: dict[str, spaces.Space[Any]] = {}
    for part in parts:
        if part.name == _BITS:
            boxes[part.name] = spaces.MultiBinary(part.size)
        elif part.name in _INTEGERS:
            boxes[part.name] = spaces.Box(0, _MOST_COUNT, part.shape, np.int32)
        else:
            top = np.broadcast_to(high[part.name], part.shape).astype(np.float32)
            boxes[part.name] = spaces.Box(np.zeros_like(top), top, dtype=np.float32)
    return spaces.Dict(boxes)
