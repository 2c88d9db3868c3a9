"""What pods use beside their containers' CPU and memory, found by their processes: the network, and GPUs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from proreus.engine.kubelet.usage.node_meter import network_bytes
from proreus.engine.kubelet.usage.rates import SHORTEST
from proreus.engine.runtimes.gpus import GpuProcess, look_at_gpu_processes
from proreus.engine.runtimes.protocol import GpuUse, NetworkUse
from proreus.engine.runtimes.shim.shim import parent_of

_LOOPBACK = ("lo",)
_MOST_ANCESTORS = 64
Processes = Mapping[str, set[int]]
"""Those of each pod, by its uid."""


class PodMeter:
    """Numbers of the last look.

    processes: those that run now, which blocks; gpus: the ids of the GPUs that each pod has.
    """

    def __init__(
        self, processes: Callable[[], Processes], gpus: Callable[[], Mapping[str, Iterable[str]]]
    ) -> None:
        self._processes, self._had = processes, gpus
        self._networks = NetworkMeter()
        self.traffic: Mapping[str, NetworkUse] = {}
        self.gpus: Mapping[str, tuple[GpuUse, ...]] = {}

    async def look(self, gpus: tuple[GpuUse, ...]) -> None:
        """gpus: what those of the machine do now."""
        thread = await asyncio.to_thread(self._processes)
        self.traffic = await asyncio.to_thread(self._networks.look, thread)
        if gpus:
            using = await look_at_gpu_processes()
            self.gpus = await asyncio.to_thread(gpu_shares, gpus, using, thread, self._had())
        else:
            self.gpus = {}


class NetworkMeter:
    """Remembers what had been counted of each pod's own network when it was last looked at."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int, int, int]] = {}
        """Moment, the network's number, received, sent."""

    def look(self, pods: Processes) -> dict[str, NetworkUse]:
        """Of the pods that share no network with this process; the first look at one tells nothing yet."""
        own, now = _network(os.getpid()), time.monotonic()
        network_uses: dict[str, NetworkUse] = {}
        seen: dict[str, tuple[float, int, int, int]] = {}
        for uid, processes in pods.items():
            networks = {network: pid for pid in processes if (network := _network(pid)) is not None}
            if len(networks) != 1 or own in networks:
                continue
            ((network, pid),) = networks.items()
            counted = _counted(pid)
            if counted is None:
                continue
            moment, known, *before = self._before.get(uid, (now, network, *counted))
            if known != network:  # its sandbox was made anew
                moment, before = now, [*counted]
            if now - moment >= SHORTEST:
                rates = [
                    max(0, round((new - old) / (now - moment)))
                    for old, new in zip(before, counted, strict=True)
                ]
                network_uses[uid] = NetworkUse(rates[0], rates[1])
            seen[uid] = (now, network, *counted)
        self._before = seen
        return network_uses


def gpu_shares(
    gpus: Iterable[GpuUse], using: Iterable[GpuProcess], pods: Processes, had: Mapping[str, Iterable[str]]
) -> dict[str, tuple[GpuUse, ...]]:
    """What each pod does with GPUs; a process in none of the pods' cgroups counts where its parents are."""
    owner = {pid: uid for uid, processes in pods.items() for pid in processes}
    memory: dict[tuple[str, str], int | None] = {
        (uid, uuid): 0 for uid, uuids in had.items() if uid in pods for uuid in uuids
    }
    alone = set(memory)
    for gpu_process in using:
        uid = _owner(gpu_process.pid, owner)
        if uid:
            before = memory.get((uid, gpu_process.uuid), 0)
            memory[uid, gpu_process.uuid] = (
                None if gpu_process.memory is None or before is None else before + gpu_process.memory
            )
    by_pod: dict[str, list[GpuUse]] = {}
    for gpu in gpus:
        for (uid, uuid), used in memory.items():
            if uuid == gpu.uuid:
                busy = gpu.busy if (uid, uuid) in alone else None
                by_pod.setdefault(uid, []).append(GpuUse(uuid, gpu.model, busy, used, gpu.capacity))
    return {uid: tuple(each) for uid, each in by_pod.items()}


def _owner(pid: int, owner: Mapping[int, str]) -> str:
    for _ in range(_MOST_ANCESTORS):
        if pid in owner:
            return owner[pid]
        pid = parent_of(pid)
        if pid <= 1:
            break
    return ""


def _network(pid: int) -> int | None:
    """The number of a process's network; None where it has ended, or is another user's."""
    try:
        return Path("/proc", str(pid), "ns", "net").stat().st_ino
    except OSError:
        return None


def _counted(pid: int) -> tuple[int, int] | None:
    try:
        return network_bytes(Path("/proc", str(pid), "net", "dev").read_text(), _LOOPBACK)
    except OSError:
        return None
