"""`proreus kube scheduler` as a process, and what it told of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path


class SchedulerProcess:
    """One replica; it can be killed and started again."""

    def __init__(self, kubeconfig: Path, folder: Path, *words: str) -> None:
        self._folder, self._words = folder, [*words, "--kubeconfig", str(kubeconfig)]
        self._folder.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> SchedulerProcess:
        """Returns when it answers."""
        ready = self._folder / "ready.json"
        ready.unlink(missing_ok=True)
        last = ("--port", "0", "--json", str(ready))
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proreus", "kube", "scheduler", *self._words, *last],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        end = time.monotonic() + 120
        while not ready.exists() or not ready.read_text().strip():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        self.port = json.loads(ready.read_text())["status"]["port"]
        return self

    def wait_ready(self, seconds: float = 120) -> None:
        """Until everything was listed."""
        self.wait_metric("synced", 1, seconds)

    def wait_metric(self, name: str, least: float, seconds: float = 60) -> None:
        """Until a number is there."""
        end = time.monotonic() + seconds
        while self.metric(name) < least:
            assert time.monotonic() < end, f"{name} is {self.metric(name)}\n{self.log()}"
            time.sleep(0.05)

    def get(self, path: str) -> str:
        """What it says; "" where it does not answer."""
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer,
        ):
            return str(answer.read().decode())
        return ""

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels; -1 where it does not answer."""
        text = self.get("/metrics")
        if not text:
            return -1.0
        total = 0.0
        for line in text.splitlines():
            head, _, number = line.rpartition(" ")
            if head.split("{")[0] == f"proreus_kube_scheduler_{name}":
                if all(f'{label}="{value}"' in head for label, value in labels.items()):
                    total += float(number)
        return total

    @property
    def leads(self) -> bool:
        """Whether it decides."""
        return self.metric("leading") == 1

    def kill(self) -> None:
        """As a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """As an operator does."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(30)
        self.process = None
        return code

    def log(self) -> str:
        """The end of what it said."""
        path = self._folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""
