"""A cluster on this machine as a process of its own, asked through the command line as a person would."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proreus.cli.main import main
from proreus.engine.runtimes.options import MachineOptions
from tests.cli.cluster.clusters import Cluster, started
from tests.engine.runtimes.leftovers import assert_nothing_left

PATIENCE = 60.0
CGROUPS = Path("/sys/fs/cgroup")


@dataclass
class Site:
    """A folder in which `proreus up` runs with these flags, ends, and runs again."""

    folder: Path
    flags: tuple[str, ...]
    cluster: Cluster | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def up(self) -> None:
        """Start it, until it is ready."""
        self.cluster = self._stack.enter_context(started(self.folder, *self.flags))

    def end(self, how: signal.Signals) -> str:
        """What it says when it ends."""
        assert self.cluster is not None
        code, said = self.cluster.end(how)
        assert code == 0 and "Traceback" not in said, said
        return said

    def run(self, *words: str) -> str:
        """A verb that works; what it prints."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words[:1], *self._where(words), *words[1:]])
        if code != 0:
            raise AssertionError(f"{words}: {_printed(err)} The cluster said: {self._last_words()}")
        return _printed(out)

    def _last_words(self) -> str:
        if self.cluster is None or self.cluster.process.poll() is not None:
            return "nothing, for it has ended"
        return self.cluster.end()[1][-4000:]

    def _where(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return () if words[0] == "images" else ("--dir", str(self.folder))

    def images(self, action: str, *words: str) -> str:
        """`proreus images`."""
        return self.run("images", action, "--dir", str(self.folder), *words)

    def pods(self, app: str) -> list[dict[str, Any]]:
        """Of an application, as the API has them."""
        document = json.loads(self.run("get", "pods", "-l", f"app={app}", "-o", "json"))
        return list(document["items"])

    def running(self, app: str) -> dict[str, int]:
        """Pods whose containers run, with how often these were started again."""
        return {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
            for pod in self.pods(app)
            if "deletionTimestamp" not in pod["metadata"]
            and "running" in (pod["status"].get("containerStatuses") or [{}])[0].get("state", {})
        }

    @property
    def node_root(self) -> Path:
        """Everything of its runtime on the disk."""
        return self.folder.absolute() / "node"

    @property
    def own_name(self) -> str:
        """Of the runtime, which its cgroups have."""
        return MachineOptions(self.node_root).own_name

    def cgroups(self, controller: str) -> dict[str, Path]:
        """The cgroups of its containers, by name."""
        version_2 = (CGROUPS / "cgroup.controllers").exists()
        parent = (CGROUPS if version_2 else CGROUPS / controller) / self.own_name
        return {path.name: path for path in parent.iterdir() if path.is_dir()} if parent.is_dir() else {}

    def close(self) -> None:
        """End what runs, the containers too."""
        try:
            if self.folder.is_dir():
                self.run("down")
        finally:
            self._stack.close()


@contextmanager
def site(folder: Path, *flags: str) -> Iterator[Site]:
    """A cluster that runs; nothing is left of it afterwards."""
    made = Site(folder, flags)
    try:
        made.up()
        yield made
    finally:
        made.close()
    assert_nothing_left(str(made.node_root), made.own_name, PATIENCE)


def until(reached: Callable[[], bool], told: Callable[[], Any] = str) -> None:
    """Until it is so; where the time is up, `told` says what there is instead."""
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, told()
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Whether a process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"


def _printed(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
