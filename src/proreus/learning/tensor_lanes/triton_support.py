"""Where kernels in Triton can run: asked before anything imports them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch


def kernels_run_on(device: torch.device) -> bool:
    """Whether the kernels can be compiled for it."""
    return why_no_kernels(device) is None


def why_no_kernels(device: torch.device) -> str | None:
    """What they lack on it; None: nothing. Triton's launchers are C that includes Python's headers."""
    if device.type != "cuda" or torch.version.hip:
        return "kernels are for GPUs of NVIDIA"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if torch.cuda.get_device_capability(device) < (8, 0):  # no tensor cores for these numbers
        return "the GPU's compute capability is below 8.0"
    if os.environ.get("TRITON_INTERPRET", "0") != "0":  # no graph can hold an interpreter
        return "TRITON_INTERPRET is set"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "there is no C compiler (CC, gcc or clang)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python.h is missing (Debian: python3-dev)"
    return None


def way_told() -> str:
    """How the worlds of a run play on the GPU, for people to read: what is slow has a reason."""
    reason = why_no_kernels(torch.device("cuda"))
    if reason is None:
        return "the worlds play on the GPU in Triton kernels"
    return f"the worlds play on the GPU in operations of torch, many times slower than in kernels: {reason}"
