"""`ctr`, containerd's own tool, for what CRI can not do: import images, end tasks that CRI has forgotten,
list containers that CRI does not show yet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from proreus.engine.runtimes.commands import MOST_OUTPUT, run_command
from proreus.engine.runtimes.protocol import CommandResult, RuntimeRefused

_SECONDS = 60.0


class Ctr:
    """The tool, for one containerd."""

    def __init__(self, socket: Path, namespace: str) -> None:
        self._words = ("--address", str(socket), "--namespace", namespace)

    @property
    def missing(self) -> bool:
        """Whether it is not installed."""
        return shutil.which("ctr") is None

    async def run(self, *words: str, seconds: float = _SECONDS) -> CommandResult:
        """To its end."""
        return await run_command(("ctr", *self._words, *words), b"", seconds, {"PATH": os.environ["PATH"]})

    async def end_task(self, id: str) -> str:
        """Kill it and forget it; what went wrong, if anything."""
        if self.missing:
            return "ending it needs containerd's tool `ctr`"
        done = await self.run("tasks", "delete", "--force", id)
        return "" if done.exit_code == 0 else done.stderr.decode(errors="replace").strip()[-500:]

    async def containers(self) -> set[str]:
        """The ids of all that containerd has noted, sandboxes too; refused where not all of them are told."""
        done = await self.run("containers", "list", "--quiet")
        if done.exit_code != 0 or len(done.stdout) >= MOST_OUTPUT:
            message = done.stderr.decode(errors="replace").strip()[-500:]
            raise RuntimeRefused(f"ctr does not list the containers: {message}")
        return set(done.stdout.decode().split())
