"""How many threads torch computes with: one, for networks this small are slower on several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from proreus.model.errors import UsageError

VARIABLE = "PROREUS_TORCH_THREADS"
"""Set it to compute with more: larger networks on idle cores may gain, and sums may round otherwise."""


def torch_threads() -> int:
    """As the environment says, else one."""
    said = os.environ.get(VARIABLE) or "1"
    if not said.isdecimal() or int(said) < 1:
        raise UsageError(f"{VARIABLE}: {said!r} is not a number from 1 on")
    return int(said)


@contextmanager
def few_torch_threads() -> Iterator[None]:
    """Compute with so many; whoever calls has as many afterwards as before."""
    before, wanted = torch.get_num_threads(), torch_threads()
    if before == wanted:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
