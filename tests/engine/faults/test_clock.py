"""The machine's clock jumps by an hour, forward and back, under churn."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from proreus.engine.agents.scheduling.agent import LEASE_NAME
from tests.engine.faults.churn import pod
from tests.engine.faults.client import PATHS
from tests.engine.faults.processes import up
from tests.engine.faults.rig import SMALL, rigged

_BACK_OFF_SECONDS = 15.0
"""More than the longest pause of a pod that did not fit."""


def _library() -> str:
    if shutil.which("faketime") is None:
        pytest.skip("needs a clock that can be put: apt install faketime")
    told = subprocess.run(
        ["faketime", "now", "printenv", "LD_PRELOAD"], check=True, capture_output=True, text=True
    )
    return told.stdout.strip().replace("libfaketime.so", "libfaketimeMT.so")


def test_a_clock_that_jumps_evicts_nobody_and_nobody_waits_for_it(tmp_path: Path) -> None:
    put = tmp_path / "clock"
    put.write_text("+0\n")
    variables = {
        "LD_PRELOAD": _library(),
        "FAKETIME_TIMESTAMP_FILE": str(put),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # as the real one: only the wall clock is ever put
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",  # times of files stay: compiled kernels are kept by them
    }

    async def main() -> None:
        engine, server = up(tmp_path / "up", *SMALL, **variables)
        await engine.start()
        try:
            async with rigged(server, seed=7) as rig:
                async with rig.churn.going_on():
                    for offset in ("+3600", "+0", "-3600", "+0"):
                        await asyncio.sleep(1.0)
                        put.write_text(f"{offset}\n")
                    await asyncio.sleep(1.0)
                await rig.settled()
                # A pod that fits nowhere now backs off; it must not wait for the clock to catch up.
                large = pod("bare-9-9")
                large["spec"]["containers"][0] |= {"resources": {"requests": {"cpu": "5800m"}}}
                code, made = await rig.client.ask("POST", PATHS["pods"], large)
                assert code == 201
                await asyncio.sleep(1.0)
                put.write_text("-3600\n")
                for number in range(4):
                    await rig.churn.scaled_to(f"web-{number}", 0)
                rig.churn.ledger.acknowledged("pods", made)
                await rig.settled(_BACK_OFF_SECONDS)
                assert rig.broken() == []
                assert rig.history.laws.counts["evicted"] == 0
                assert len(rig.holders(LEASE_NAME)) == 1
        finally:
            engine.kill()

    asyncio.run(main())
