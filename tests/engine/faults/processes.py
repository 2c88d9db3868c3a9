"""Processes of the engine, started, killed and started again on the same store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.runner import command, environment
from tests.engine.store.etcd_servers import free_ports

TOKEN = "a-token-of-the-tests"
"""Of an admin of every cluster here."""
STARTS_SECONDS = 240
"""Kernels may have to be compiled first."""


@dataclass
class EngineProcess:
    """`proreus up` or `proreus agent` in a folder of its own."""

    folder: Path
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    async def start(self) -> float:
        """Start it, and wait until it says that it is ready; the seconds that this took."""
        begun = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        with (self.folder / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                command(*self.words, "--json", str(ready)),
                env=environment(**self.variables),
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        while not _whole(ready):
            assert self.process.poll() is None, f"it ended: {self.said()[-3000:]}"
            assert time.monotonic() - begun < STARTS_SECONDS, self.said()[-3000:]
            await asyncio.sleep(0.02)
        return time.monotonic() - begun

    def kill(self) -> None:
        """As a power cut does."""
        if self.process is not None:
            assert self.process.poll() is None, f"it had ended by itself: {self.said()[-3000:]}"
            self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        """Send the signal and wait until it is gone."""
        if self.process is not None:
            if self.process.poll() is None:
                os.kill(self.process.pid, how)
            self.process.wait()
            self.process = None

    def said(self) -> str:
        """Everything that it wrote on stderr, over all its lives."""
        return (self.folder / "stderr.log").read_text(errors="replace")


def up(folder: Path, *words: str, **variables: str) -> tuple[EngineProcess, str]:
    """A cluster that keeps its port over restarts, and the address of its API."""
    port = free_ports(1)[0]
    tokens = folder.with_name(f"{folder.name}.tokens")
    tokens.parent.mkdir(parents=True, exist_ok=True)
    tokens.write_text(f"{TOKEN},tests,admin\n")
    tokens.chmod(0o600)
    chosen = ("up", "--dir", str(folder), "--port", str(port), "--token-file", str(tokens), *words)
    return EngineProcess(folder, chosen, variables), f"http://127.0.0.1:{port}"


def agent(folder: Path, *words: str) -> EngineProcess:
    """Nodes of another process."""
    return EngineProcess(folder, ("agent", "--dir", str(folder), *words))


def _whole(path: Path) -> bool:
    try:
        document: Any = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return bool(document)
