"""What policies of several experts share in any world: how checkpoints are read, and what a user weighs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Checkpoint


def read_wishes(text: str) -> dict[str, float]:
    """The objectives of a command line: "gpu_allocation" or "gpu_allocation=3,completion=1"; where commas
    part names of policies, a + parts these."""
    wishes: dict[str, float] = {}
    for word in filter(None, (word.strip() for word in text.replace("+", ",").split(","))):
        name, equals, amount = word.partition("=")
        try:
            weight = float(amount) if equals else 1.0
        except ValueError:
            raise UsageError(f"--objective {word}: {amount!r} is not a number") from None
        if not 0.0 <= weight < np.inf:
            raise UsageError(f"--objective {word}: a weight is a number from 0 on")
        wishes[name] = weight
    if wishes and not any(wishes.values()):
        raise UsageError("--objective: all weights are 0")
    return wishes


def check_wishes(wishes: Mapping[str, float], objectives: tuple[str, ...]) -> None:
    """Refuse objectives that a policy does not know."""
    unknown = [name for name in wishes if name not in objectives]
    if unknown:
        raise UsageError(f"--objective {unknown[0]}: the policy was trained for {', '.join(objectives)}")


def names_in(config: Mapping[str, object], key: str, folder: Path, where: str = "config") -> tuple[str, ...]:
    """The names that a part of a card lists under that key."""
    names = config.get(key)
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise InputError("needs a list of names", file=folder, field=f"{where}.{key}")
    return tuple(names)


def finite_tensor(checkpoint: Checkpoint, name: str, shape: tuple[int, ...], folder: Path) -> F64:
    """A tensor of a checkpoint, of that shape and finite."""
    tensor = checkpoint.tensors.get(name)
    if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
        raise InputError(f"needs finite numbers of shape {shape}", file=folder, field=name)
    return tensor.astype(np.float64)
