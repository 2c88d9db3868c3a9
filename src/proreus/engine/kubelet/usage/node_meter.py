"""What is used on the machine as a whole, by the counters that its kernel keeps."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.kubelet.usage.rates import SHORTEST
from proreus.engine.runtimes.protocol import NetworkUse, NodeUse

_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512
"""Bytes; /proc/diskstats counts in these whatever the disk's own are."""
_WITHIN = ("lo", "veth", "docker", "br-", "cni", "flannel", "virbr", "tunl", "dummy")
"""Network devices whose traffic stays on the machine, or passes another device, too."""
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that are made of others, or of memory."""


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """What the kernel has counted since the machine's start."""

    cpu: int = 0
    """Ticks in which these cores did something."""
    read: int = 0
    written: int = 0
    received: int = 0
    sent: int = 0


def busy_ticks(stat: str, cores: Collection[int]) -> int:
    """Of /proc/stat: what those cores spent on anything but idling and waiting for disks."""
    wanted = {f"cpu{core}" for core in cores}
    total = 0
    for line in stat.splitlines():
        name, *fields = line.split()
        if name in wanted:
            user, nice, system, _idle, _waiting, *rest = (int(field) for field in fields[:8])
            total += user + nice + system + sum(rest)  # interrupts, and what the host below took
    return total


def used_memory(meminfo: str) -> int:
    """Of /proc/meminfo: what could not be had without taking it from somebody."""
    kibibytes = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if rest:
            kibibytes[name] = int(rest.split()[0])
    free = kibibytes.get("MemAvailable", kibibytes.get("MemFree", 0))
    return max(0, kibibytes["MemTotal"] - free) * 1024


def disk_bytes(diskstats: str, disks: Collection[str]) -> tuple[int, int]:
    """Of /proc/diskstats: read and written by those disks; their partitions are in their sums already."""
    read = written = 0
    for line in diskstats.splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[2] in disks:
            read += int(fields[5]) * _SECTOR
            written += int(fields[9]) * _SECTOR
    return read, written


def network_bytes(dev: str, without: tuple[str, ...] = _WITHIN) -> tuple[int, int]:
    """Of /proc/net/dev: received and sent by all devices but those whose names begin so."""
    received = sent = 0
    for line in dev.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if rest and not name.strip().startswith(without):
            fields = rest.split()
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


class NodeMeter:
    """Remembers what had been counted when it was last asked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cores = os.sched_getaffinity(0)
        self._before: tuple[float, KernelCounters] | None = None
        self._rates = NodeUse()

    def read(self) -> NodeUse:
        """What is used now; rates are since the last time, none at the first."""
        now, counted = time.monotonic(), self._count()
        if self._before is None:
            self._before = (now, counted)
        elif now - self._before[0] >= SHORTEST:
            self._rates = rates(self._before[1], counted, now - self._before[0])
            self._before = (now, counted)
        known = self._rates
        memory = used_memory(Path("/proc/meminfo").read_text())
        return NodeUse(known.cpu, memory, _disk_used(self._root), known.read, known.written, known.traffic)

    def _count(self) -> KernelCounters:
        cpu = busy_ticks(Path("/proc/stat").read_text(), self._cores)
        read, written = disk_bytes(_text("/proc/diskstats"), set(_disks()))
        received, sent = network_bytes(_text("/proc/net/dev"))
        return KernelCounters(cpu, read, written, received, sent)


def rates(before: KernelCounters, after: KernelCounters, seconds: float) -> NodeUse:
    """What was used a second in between; a counter that was set back counts as standing still."""

    def each_second(then: int, now: int) -> int:
        return max(0, round((now - then) / seconds))

    return NodeUse(
        cpu=max(0, round((after.cpu - before.cpu) * 1000 / _TICKS / seconds)),
        read=each_second(before.read, after.read),
        written=each_second(before.written, after.written),
        traffic=NetworkUse(
            each_second(before.received, after.received),
            each_second(before.sent, after.sent),
        ),
    )


def _disks() -> Iterator[str]:
    try:
        names = sorted(path.name for path in Path("/sys/block").iterdir())
    except OSError:  # a sandbox that hides them
        return
    yield from (name for name in names if not name.startswith(_NO_DISKS))


def _disk_used(root: Path) -> int:
    """0 where the folder is gone: the node has other troubles then, and tells of them."""
    try:
        return shutil.disk_usage(root).used
    except OSError:
        return 0


def _text(path: str) -> str:
    """ "" where a sandbox hides it: then nothing is known of that."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
