"""Which device computes gradients. Torch is imported only when a GPU may be used."""

from __future__ import annotations

import importlib.util
from typing import Literal

from proreus.model.errors import UsageError

Device = Literal["cpu", "cuda", "auto"]


def device_name(device: Device) -> str:
    """What computes, for people to read; refuses as `uses_cuda` does."""
    if not uses_cuda(device):
        return "the CPU"
    import torch

    return f"cuda ({torch.cuda.get_device_name()})"


def uses_cuda(device: Device) -> bool:
    """Whether to compute on a GPU; refuses where one is asked for and there is none."""
    if device == "cpu":
        return False
    available = False
    if importlib.util.find_spec("torch") is not None:
        import torch

        available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UsageError("--device cuda: no CUDA device here, or torch without CUDA; use cpu or auto")
    return available
