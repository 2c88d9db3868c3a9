"""Shims that containerd has started and forgotten, ended.

A containerd that is killed after it has started a shim, and before it has noted where that answers, never
asks it again: an empty process stays for ever. containerd notes a container before it starts its shim, and
forgets it after the shim has ended, so a shim whose id it does not know is nobody's. CRI alone does not list
a sandbox that is still being made, so without `ctr` nothing is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd.cri_client import CriCalls
from proreus.engine.runtimes.containerd.ctr import Ctr
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import RuntimeRefused
from proreus.engine.runtimes.shim.shim import STARTED_FIELD, stat_fields

_LOOK_SECONDS = 30.0
_SUSPECT_SECONDS = 10.0
"""So long a shim must be empty and unknown: one that is just beginning is left alone."""
_PROGRAM = "containerd-shim-runc-v2"
"""Of this one an empty shim has no child; shims of other kinds may run things within themselves."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shim:
    """One process of this machine; `begun` tells it from a later one of the same number."""

    pid: int
    begun: int
    id: str
    """Of the sandbox or container that it was started for."""
    namespace: str
    address: str
    """Where its containerd answers."""


@dataclass(frozen=True)
class ShimVerdict:
    """What is to be done about shims without children."""

    suspected: Mapping[Shim, float]
    """Since when."""
    forgotten: tuple[Shim, ...]
    """To be ended."""


def judge(
    empty: Collection[Shim], known: Collection[str], suspected: Mapping[Shim, float], now: float
) -> ShimVerdict:
    """Forgotten is who was empty and unknown at every look for long enough.

    known: the ids that containerd knows, asked after the shims were seen; suspected: as of the look before.
    """
    since = {shim: suspected.get(shim, now) for shim in empty if shim.id not in known}
    return ShimVerdict(since, tuple(shim for shim, first in since.items() if now - first >= _SUSPECT_SECONDS))


def shim_of(pid: int, begun: int, words: Sequence[str]) -> Shim | None:
    """The shim with this command line; None for all else, as for its short commands (`start`, `delete`)."""
    if not words or Path(words[0]).name != _PROGRAM:
        return None
    flags: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            return None
        name, equals, value = word.lstrip("-").partition("=")
        flags[name] = value if equals or name == "debug" else next(rest, "")
    try:
        return Shim(pid, begun, flags["id"], flags["namespace"], flags["address"])
    except KeyError:
        return None


def empty_shims(socket: Path, namespace: str) -> frozenset[Shim]:
    """Those of this containerd that have no children, in one walk over the processes."""
    shims: list[Shim] = []
    parents: set[int] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or not (fields := stat_fields(int(entry))):
            continue
        parents.add(int(fields[1]))
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:  # it has just ended
            continue
        shim = shim_of(int(entry), int(fields[STARTED_FIELD]), words)
        if shim is not None and shim.namespace == namespace and _is_of(shim, socket):
            shims.append(shim)
    return frozenset(shim for shim in shims if shim.pid not in parents)


def _is_of(shim: Shim, socket: Path) -> bool:
    """Whether its address is this very socket: in another container's files the same path is another's."""
    seen_by_it = Path("/proc", str(shim.pid), "root", shim.address.lstrip("/"))
    try:
        return seen_by_it.samefile(socket)
    except OSError:  # it has ended, is another user's, or its containerd is away
        return False


class ForgottenShims:
    """Of one containerd; `run` looks for ever."""

    def __init__(self, options: MachineOptions, calls: CriCalls, ctr: Ctr) -> None:
        self._options, self._calls, self._ctr = options, calls, ctr
        self._suspected: Mapping[Shim, float] = {}
        self._soon = asyncio.Event()

    def look_soon(self) -> None:
        """containerd has been away, and may have forgotten some."""
        self._soon.set()

    async def run(self) -> None:
        """Look, wait, look again, until cancelled."""
        while not self._ctr.missing:
            self._soon.clear()
            try:
                await self.look()
            except grpc.aio.AioRpcError:  # away: it is looked again when it is back
                self._suspected = {}
            except (RuntimeRefused, OSError) as error:
                self._suspected = {}
                _log.warning("looking for shims that containerd forgot: %s", error)
            if self._suspected:
                await asyncio.sleep(_SUSPECT_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), _LOOK_SECONDS)

    async def look(self) -> None:
        """Once; whoever is forgotten is ended."""
        empty = await asyncio.to_thread(self._empty)
        if not empty:
            self._suspected = {}
            return
        verdict = judge(empty, await self._known(), self._suspected, time.monotonic())
        if verdict.forgotten:
            await asyncio.to_thread(self._end, verdict.forgotten)
        ended = set(verdict.forgotten)
        self._suspected = {shim: since for shim, since in verdict.suspected.items() if shim not in ended}

    def _empty(self) -> frozenset[Shim]:
        return empty_shims(self._options.socket, self._options.namespace)

    async def _known(self) -> set[str]:
        known = await self._ctr.containers()
        sandboxes = await self._calls.call("ListPodSandbox", cri.ListPodSandboxRequest())
        containers = await self._calls.call("ListContainers", cri.ListContainersRequest())
        return known | {item.id for item in (*sandboxes.items, *containers.containers)}

    def _end(self, forgotten: Sequence[Shim]) -> None:
        """It heeds no milder signal. Looked at once more, since containerd took its time to answer."""
        still = self._empty()
        for shim in forgotten:
            if shim not in still:
                continue
            try:
                os.kill(shim.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                _log.warning("shim %d of %s, which containerd forgot, is another user's", shim.pid, shim.id)
                continue
            _log.warning("ended shim %d of %s, which containerd forgot", shim.pid, shim.id)
