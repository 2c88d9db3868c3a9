"""A torch learner at one moment: what a run saves, and what brings the learner back bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from proreus.contract.lanes import Arrays
from proreus.model.errors import InputError, UsageError

Module = TypeVar("Module", bound=nn.Module)
_VALUES = "values"  # what of a state is not an array, as JSON
MOST_REMEMBERED = 8 << 30
"""Bytes of a replay memory: more would not fit most machines."""


def part_of(arrays: Mapping[str, Any], prefix: str) -> Arrays:
    """The arrays under a prefix, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


def under(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    """Arrays, each under that prefix."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


class _Seeded(Protocol):
    """What the first weights of a network depend on."""

    @property
    def seed(self) -> int:
        """Of the weights."""
        ...

    @property
    def hidden(self) -> int:
        """Width of the layers."""
        ...


def first_network(kind: Callable[[int, int, int], Module], config: _Seeded, sizes: tuple[int, int]) -> Module:
    """The network that a learner starts from; sizes: features of a row and of the context."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return kind(config.hidden, *sizes)


def weights_of(module: nn.Module) -> Arrays:
    """A network's weights, copied."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def set_weights(module: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Give a network these weights."""
    module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})


def moments_of(optimiser: torch.optim.Optimizer) -> Arrays:
    """What an optimiser remembers of past gradients, copied."""
    return {
        f"{place}.{name}": tensor.cpu().numpy().copy()
        for place, moments in optimiser.state_dict()["state"].items()
        for name, tensor in moments.items()
    }


def set_moments(optimiser: torch.optim.Optimizer, arrays: Mapping[str, Any]) -> None:
    """Let an optimiser remember these."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, array in arrays.items():
        place, _, rest = name.partition(".")
        moments.setdefault(int(place), {})[rest] = torch.from_numpy(array.copy())
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})


def with_values(arrays: Arrays, values: Mapping[str, Any]) -> Arrays:
    """A state as a run saves it: arrays, and values that JSON can hold. Nothing needs pickle."""
    return {**arrays, _VALUES: np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)}


def values_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a state."""
    try:
        values: dict[str, Any] = json.loads(state[_VALUES].tobytes())
    except (KeyError, ValueError) as error:
        raise InputError(f"the saved state cannot be resumed: {error}") from error
    return values


def check_device(algorithm: str, name: str) -> None:
    """Refuse a device that is not there."""
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"{algorithm}: device {name!r}: {str(error).splitlines()[0]}") from error


def check_memory(algorithm: str, capacity: int, observation: int, cluster: str) -> None:
    """Refuse a replay memory that would not fit, before hours of training fill it; observation: bytes."""
    needed = 2 * capacity * observation
    if needed > MOST_REMEMBERED:
        raise UsageError(
            f"{algorithm}: remembering {capacity:,} decisions on {cluster} takes {needed / 2**30:.0f} GiB: "
            f"at most {MOST_REMEMBERED // (2 * observation):,} fit (--capacity)"
        )
