"""A cluster whose one node is this machine: the engine, the node's agent, containerd, each to be killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from proreus.cli.cluster.options import machine_options
from proreus.engine.kubelet.runtime_factory import clear_runtime, image_store
from proreus.engine.runtimes.images.repack import repack
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.shim import shim
from tests.engine.faults.processes import EngineProcess, agent, up
from tests.engine.faults.real_work import MARK, UID, RealWork
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.benches import IMAGE
from tests.engine.runtimes.containerds import Daemon, containerd
from tests.engine.runtimes.leftovers import assert_nothing_left, processes

NODE = "this"
"""A machine joins no cluster that answers whoever asks."""
_IMAGE_BYTES = 1 << 30
_SHIM = "containerd-shim"
_PATIENCE = 120.0
"""Shims that containerd forgot are looked for every half minute, on a busy machine a little later."""


@dataclass
class RealCluster:
    """Its processes, and what its pods note."""

    runtime: str
    server: str
    engine: EngineProcess
    agent: EngineProcess
    options: MachineOptions
    work: RealWork
    daemon: Daemon | None

    def keepers(self) -> list[int]:
        """The processes that look after containers: keepers, or containerd's shims."""
        if self.daemon is None:
            return _named(Path(shim.__file__).name, str(self.options.root))
        return [pid for pid in _named(_SHIM, str(self.daemon.socket)) if shim.descendants(pid)]

    def empty_shims(self) -> list[int]:
        """Shims that look after nothing: a containerd that is killed after it has started one, and before it
        has told it what to run, forgets it."""
        if self.daemon is None:
            return []
        return [pid for pid in _named(_SHIM, str(self.daemon.socket)) if not shim.descendants(pid)]

    def shims_ended(self) -> int:
        """How many the agent has ended since containerd had forgotten them."""
        return self.agent.said().count("ended shim ")

    def running(self) -> set[str]:
        """The uids of pods of which a process is there, as the machine tells it."""
        found = set()
        for entry in Path("/proc").iterdir():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:  # it has just ended
                continue
            if f"{MARK}={self.work.notes}".encode() in variables:
                marked = [variable for variable in variables if variable.startswith(f"{UID}=".encode())]
                found |= {one.partition(b"=")[2].decode() for one in marked}
        return found

    def left_over(self) -> list[str]:
        """What there still is once all pods are gone: folders, keepers, shims, processes, containers."""
        folders = [str(path) for path in (self.options.root / "pods").iterdir()]
        known = []
        if self.daemon is not None:
            known = [
                *self.daemon.ctr_says("containers", "ls", "-q").split(),
                *self.daemon.ctr_says("tasks", "ls", "-q").split(),
            ]
        kept = [*self.keepers(), *self.empty_shims()]
        return [*folders, *known, *map(str, kept), *sorted(self.running())]

    async def end(self) -> None:
        """All its pods are gone, so nothing of them may be left on the machine soon."""
        until = time.monotonic() + _PATIENCE
        while left := self.left_over():
            assert time.monotonic() < until, f"left behind: {left}"
            await asyncio.sleep(0.2)
        self.agent.end(signal.SIGTERM)
        assert_nothing_left(str(self.options.root), self.options.own_name, _PATIENCE)


@asynccontextmanager
async def real_cluster(folder: Path, runtime: str, *flags: str) -> AsyncIterator[RealCluster]:
    """It runs as long as the block lasts, and its pods do not outlive it."""
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    flock = Path(shutil.which("flock") or "/usr/bin/flock")
    notes = folder / "notes"
    notes.mkdir(parents=True)
    archive = busybox_archive(busybox, folder / "image.tar", IMAGE, flock)
    async with AsyncExitStack() as stack:
        daemon, words = None, ["--runtime", runtime, "--allow-host-path", str(notes)]
        if runtime == "containerd":
            (folder / "c").mkdir()
            daemon = stack.enter_context(containerd(folder / "c", busybox))
            repack(archive, "", folder / "checked.tar", _IMAGE_BYTES)
            daemon.ctr("images", "import", str(folder / "checked.tar"))
            words += ["--socket", str(daemon.socket)]
        options = machine_options(folder / "agent", None if daemon is None else daemon.socket)
        if runtime == "runc":
            options.root.mkdir(parents=True, exist_ok=True)
            image_store(options).import_archive(archive)
        stack.push_async_callback(clear_runtime, options)
        engine, server = up(folder / "up", "--nodes", "0", *flags)
        store = f"sqlite:{folder / 'up' / 'cluster.db'}"
        node = agent(folder / "agent", "--store", store, "--name", NODE, *words)
        for engine_process in (engine, node):
            stack.callback(engine_process.end, signal.SIGKILL)
            await engine_process.start()
        yield RealCluster(runtime, server, engine, node, options, RealWork(notes), daemon)


def _named(name: str, mark: str) -> list[int]:
    return [int(line.partition(":")[0]) for line in processes(mark) if name in line]


def kill_one(pid: int) -> bool:
    """Whether it was there to be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
