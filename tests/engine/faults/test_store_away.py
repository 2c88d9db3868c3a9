"""The store is away: whoever asks is told so soon, and the engine can be ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.runner import command, environment
from tests.engine.faults.processes import EngineProcess, up
from tests.engine.faults.rig import SMALL
from tests.engine.store.etcd_servers import etcd_cluster

SOON = 4.0
"""Seconds, on a busy machine; an answer that asks to be asked again keeps kubectl for over a minute."""


def test_it_is_told_soon_and_the_engine_ends_when_told_to(tmp_path: Path) -> None:
    kubectl = os.environ.get("PROREUS_KUBECTL", "").split(os.pathsep)[0] or shutil.which("kubectl")
    if not kubectl:
        pytest.skip("there is no kubectl: install Debian's kubernetes-client, or name one by PROREUS_KUBECTL")
    folder = tmp_path / "up"

    async def main() -> EngineProcess:
        engine, _ = up(folder, "--store", f"etcd://{cluster.endpoints}", *SMALL)
        await engine.start()
        return engine

    with etcd_cluster(tmp_path / "etcd") as cluster:
        engine = asyncio.run(main())
        try:
            asking = [kubectl, "--kubeconfig", str(folder / "kubeconfig"), "get", "nodes"]
            assert "node-1" in _said(asking)[0]  # and what kubectl wants to know first is in its cache
            cluster.members[0].kill()
            time.sleep(0.5)
            for words in (asking, asking, command("get", "nodes", "--dir", str(folder))):
                said, seconds = _said(words)
                assert "the store cannot do this now" in said, said
                assert seconds < SOON, said
            began = time.monotonic()
            assert engine.process is not None
            engine.process.send_signal(signal.SIGINT)
            assert engine.process.wait(60) == 0, engine.said()[-2000:]
            assert "Traceback" not in engine.said()
            assert time.monotonic() - began < 15
        finally:
            engine.end(signal.SIGKILL)


def _said(words: list[str]) -> tuple[str, float]:
    began = time.monotonic()
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr, time.monotonic() - began
