"""Clusters that tests start: real processes of `proreus up`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.cli.cluster.state_dir import read_kubeconfig
from tests.cli.runner import command, environment

STARTS_SECONDS = 240
"""Kernels may have to be compiled first."""


@dataclass
class Cluster:
    """A process that runs a cluster in a folder."""

    process: subprocess.Popen[bytes]
    folder: Path
    ready: dict[str, Any]

    @property
    def where(self) -> tuple[str, str]:
        """The flag by which verbs find it."""
        return "--dir", str(self.folder)

    @property
    def token(self) -> str:
        """That of an admin."""
        return read_kubeconfig(Path(self.ready["kubeconfig"])).token

    @property
    def headers(self) -> dict[str, str]:
        """By which it lets an admin in."""
        return {"authorization": f"Bearer {self.token}"}

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code, and what it said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said.decode()


@contextmanager
def started(folder: Path, *words: str) -> Iterator[Cluster]:
    """A cluster on any free port that is ready; nothing is left of it afterwards."""
    folder.mkdir(exist_ok=True)
    path = folder / "ready.json"
    path.unlink(missing_ok=True)
    process = subprocess.Popen(
        command("up", "--dir", str(folder), "--port", "0", "--json", str(path), *words),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: path.exists() or process.poll() is not None, STARTS_SECONDS)
        assert process.poll() is None, process.communicate()[1].decode()
        yield Cluster(process, folder, json.loads(path.read_text()))
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        if process.stderr is not None and not process.stderr.closed:
            process.communicate()


def compiles(process: int) -> bool:
    """Whether it has loaded the compiler of what decides, which is half of a process in time and memory."""
    return "llvmlite" in Path(f"/proc/{process}/maps").read_text()


def until(reached: Callable[[], bool], seconds: float = 90.0) -> None:
    """Until it is so; an error where the time is up."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "the time is up"
        time.sleep(0.05)
