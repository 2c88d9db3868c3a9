"""A real `proreus serve` process for the tests that start, stop and kill one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.cli.runner import command, environment

START_SECONDS = 120.0


class ServiceProcess:
    """`proreus serve ...` in a session of its own."""

    def __init__(self, folder: Path, door: str, *words: str) -> None:
        self._ready = folder / "ready.json"
        self._ready.unlink(missing_ok=True)
        self._errors = (folder / "stderr.txt").open("ab")
        self.process = subprocess.Popen(
            command("serve", door, "--port", "0", "--json", str(self._ready), *words),
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )
        self.about = self._wait(folder)

    def _wait(self, folder: Path) -> dict[str, Any]:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._ready.exists():
                document: dict[str, Any] = json.loads(self._ready.read_bytes())
                return document
            time.sleep(0.02)
        self.kill()
        raise AssertionError((folder / "stderr.txt").read_text())

    @property
    def rest(self) -> int:
        return int(self.about["rest"]["port"])

    @property
    def grpc(self) -> int:
        return int(self.about["grpc"]["port"])

    def kill(self) -> None:
        """kill -9, the learner's process too."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self._errors.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._errors.close()
        return code
