"""Where kernels in Triton can run: asked before anything imports them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch


def kernels_run_on(device: torch.device) -> bool:
    """Whether the kernels can be compiled for it. Triton's launchers are C that includes Python's headers."""
    if device.type != "cuda" or torch.version.hip or importlib.util.find_spec("triton") is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):  # no tensor cores for these numbers
        return False
    if os.environ.get("TRITON_INTERPRET", "0") != "0":  # no graph can hold an interpreter
        return False
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and Path(sysconfig.get_path("include"), "Python.h").exists()
