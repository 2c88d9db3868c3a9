"""Whole processes under a clock that is put forth and back while they work."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.faults.client import PATHS
from tests.engine.faults.processes import up
from tests.engine.faults.rig import SMALL, Rig, rigged
from tests.engine.faults.workloads import SimulatedWork

MINUTES, DAY = 300, 86_400
JUMPS = (MINUTES, -MINUTES, DAY, -DAY, 0)
"""Where the clock stands beside the true time, one after the other: jumps of minutes, of a day and of two."""
BACK_OFF_SECONDS = 15.0
"""More than the longest pause of a pod that did not fit."""


@dataclass(frozen=True)
class PutClock:
    """The wall clock of processes with these variables; the steady clock and times of files stay true."""

    file: Path

    def put(self, seconds: int) -> None:
        """So far from the true time."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self.file)

    def variables(self) -> dict[str, str]:
        """For the environment of a process."""
        return {
            "LD_PRELOAD": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def _library() -> str:
    if shutil.which("faketime") is None:
        pytest.skip("needs a clock that can be put: apt install faketime")
    told = subprocess.run(
        ["faketime", "now", "printenv", "LD_PRELOAD"], check=True, capture_output=True, text=True
    )
    return told.stdout.strip().replace("libfaketime.so", "libfaketimeMT.so")


async def jump(folder: Path, store: tuple[str, ...], seed: int) -> Rig:
    """Jumps under churn, then one back while a pod waits for room; it comes to what was asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = PutClock(folder / "clock")
    clock.put(0)
    engine, server = up(folder / "up", *store, *SMALL, **clock.variables())
    await engine.start()
    try:
        async with rigged(server, seed=seed) as rig:
            async with rig.churn.going_on():
                for seconds in JUMPS:
                    await asyncio.sleep(0.8)
                    clock.put(seconds)
                await asyncio.sleep(0.8)
            await rig.settled()
            await _bound_though_the_clock_went_back(rig, clock)
    finally:
        engine.kill()
    return rig


async def _bound_though_the_clock_went_back(rig: Rig, clock: PutClock) -> None:
    """A pod that no node has room for backs off; it must not wait for the clock to catch up."""
    code, made = await rig.client.ask("POST", PATHS["pods"], SimulatedWork().pod("bare-9-9", cpu="5800m"))
    assert code == 201, made
    await asyncio.sleep(1.0)
    clock.put(-DAY)
    await rig.churn.emptied()
    rig.churn.ledger.acknowledged("pods", made)
    await rig.settled(BACK_OFF_SECONDS + 30.0)
