"""Kernels are compiled where everything is there that compiling takes; else what is missing has a name."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch

from proreus.learning.tensor_lanes.triton_support import kernels_run_on, way_told, why_no_kernels


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine that lacks nothing."""
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: tmp_path)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("CC", "cc")
    return monkeypatch


def test_nothing_is_missing(complete: pytest.MonkeyPatch) -> None:
    assert kernels_run_on(torch.device("cuda")) and not kernels_run_on(torch.device("cpu"))
    assert way_told() == "the worlds play on the GPU in Triton kernels"


LACKS: dict[str, tuple[Any, str, Any]] = {
    "GPUs of NVIDIA": (torch.version, "hip", "6.0"),
    "Triton is not installed": (importlib.util, "find_spec", lambda name: None),
    "below 8.0": (torch.cuda, "get_device_capability", lambda device: (7, 5)),
    "Python.h": (sysconfig, "get_path", lambda name: "/nowhere"),
}


@pytest.mark.parametrize("what", LACKS)
def test_what_is_missing_has_a_name(what: str, complete: pytest.MonkeyPatch) -> None:
    complete.setattr(*LACKS[what])
    assert not kernels_run_on(torch.device("cuda"))
    assert "in operations of torch" in way_told() and what in way_told()


def test_what_the_environment_lacks_has_a_name(complete: pytest.MonkeyPatch) -> None:
    complete.setenv("TRITON_INTERPRET", "1")
    assert why_no_kernels(torch.device("cuda")) == "TRITON_INTERPRET is set"
    complete.delenv("TRITON_INTERPRET")
    complete.delenv("CC")
    complete.setattr(shutil, "which", lambda name: None)
    assert "no C compiler" in str(why_no_kernels(torch.device("cuda")))
