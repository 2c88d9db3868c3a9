"""Runtimes by name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.opening import open_runtime
from proreus.model.errors import UsageError
from proreus.version import __version__


def test_an_unknown_runtime_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'runc'"):
        asyncio.run(open_runtime("runcc", MachineOptions(tmp_path)))


def test_auto_is_the_best_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # runc needs root; there is no containerd

    async def scene() -> str:
        options = MachineOptions(tmp_path / "node", socket=tmp_path / "none.sock", cgroups=False)
        runtime = await open_runtime("auto", options)
        await runtime.close()
        return runtime.capacity().info["containerRuntimeVersion"]

    assert asyncio.run(scene()) == f"process://{__version__}"
