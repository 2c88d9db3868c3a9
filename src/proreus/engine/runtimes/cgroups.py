"""Cgroups of containers, of either version: made with their limits, read, and taken away.

All containers of a runtime stand side by side below one parent of its own, at the root of the hierarchy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.runtimes.network_limits import hold_network, no_network_programs
from proreus.engine.runtimes.shim.shim import kill_container, remove_cgroups

MOUNT = Path("/sys/fs/cgroup")
_PERIOD = 100_000
"""Microseconds over which the kernel counts out the CPU."""
_V1 = ("memory", "cpu", "cpuacct", "pids", "freezer")
_V2 = ("cpu", "memory", "pids")
_BLKIO, _IO = "blkio", "io"
"""The controllers of disks, of version 1 and 2: containers run without them, but are not held back."""
_UNIFIED = "unified"
"""Where version 2 stands beside version 1, without controllers: programs at sockets are found by it."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """What a container may use."""

    cpu: int | None
    """Thousandths of a core; None: no limit."""
    memory: int | None
    cpu_request: int
    """Thousandths of a core: its share when all want more than there is."""
    processes: int
    disk: int | None = None
    """Bytes a second, read and written each; None: no limit."""
    network: int | None = None
    """Bytes a second, sent and received each; None: no limit."""


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """What the processes of a cgroup have used."""

    cpu: int
    """Nanoseconds since its beginning."""
    memory: int
    """Bytes of the working set now."""


class Unwritable(Exception):
    """There are no cgroups here that this process may make; says why."""


class Cgroups:
    """See the module; `parent` is made if it is not there. Raises `Unwritable`.

    disks: "MAJOR:MINOR" of those on which containers are held to what they may read and write.
    """

    def __init__(self, parent: str, mount: Path = MOUNT, disks: Sequence[str] = ()) -> None:
        self._name, self._mount, self._disks = parent, mount, tuple(disks)
        self.version = 2 if (mount / "cgroup.controllers").exists() else 1
        try:
            if self.version == 2:
                self._parents = {"": mount / parent}
                _enable(mount)
                (mount / parent).mkdir(exist_ok=True)
                _enable(mount / parent)
                throttles = bool(self._disks) and _enable_io(mount) and _enable_io(mount / parent)
            else:
                self._parents = {name: (mount / name).resolve() / parent for name in _V1}
                for name, folder in self._parents.items():
                    if not (mount / name / "cgroup.procs").exists():
                        raise Unwritable(f"there is no cgroup controller {name} below {mount}")
                    folder.mkdir(exist_ok=True)
                throttles = (mount / _BLKIO / "blkio.throttle.write_bps_device").exists()
                if throttles:
                    self._parents[_BLKIO] = (mount / _BLKIO).resolve() / parent
                    self._parents[_BLKIO].mkdir(exist_ok=True)
        except OSError as error:
            raise Unwritable(f"{error.filename or mount}: {error.strerror}") from error
        self.no_disk_limits = _no_disk_limits(self.version, throttles=throttles, disks=self._disks)
        """Why containers cannot be held to a rate of disk; "": they can."""
        self.no_network_limits = self._no_unified() or no_network_programs()
        """The same for the network."""

    def hold_disk(self, name: str, rate: int) -> None:
        """Hold a cgroup that another program has made to so many bytes a second."""
        for controller, file, value in self._disk_settings(rate):
            self._file(controller, name, file).write_text(value)

    def hold_network(self, name: str, rate: int) -> None:
        """Hold a cgroup that another program is to use to so many bytes a second; it need not stand yet."""
        if self.no_network_limits:
            return
        folder = self._network_folder(name)
        folder.mkdir(exist_ok=True)
        hold_network(folder, rate)

    def release_network(self, name: str) -> None:
        """Take away what nobody came to use."""
        with contextlib.suppress(OSError):  # it is in use, or gone
            self._network_folder(name).rmdir()

    def make(self, name: str, limits: CgroupLimits) -> list[str]:
        """Its folders, one for each hierarchy; what stood there before is used on."""
        folders = self.folders(name)
        for folder in folders:
            Path(folder).mkdir(exist_ok=True)
        for controller, file, value in self._settings(limits):
            self._file(controller, name, file).write_text(str(value))
        if limits.network is not None:
            self.hold_network(name, limits.network)
        return folders

    def folders(self, name: str) -> list[str]:
        """Where the cgroup of that name is, or would be."""
        return list(dict.fromkeys(str(parent / name) for parent in self._parents.values()))

    def path(self, name: str) -> str:
        """From the root of every hierarchy, as other tools want it."""
        return f"/{self._name}/{name}"

    def memory_folder(self, name: str) -> str:
        """Where the kernel tells of memory."""
        return str(self._file("memory", name, "."))

    def spent(self, name: str) -> CgroupUsage | None:
        """None where it is gone."""
        try:
            if self.version == 2:
                cpu = _keyed(self._file("cpu", name, "cpu.stat"))["usage_usec"] * 1000
                used = int(self._file("memory", name, "memory.current").read_text())
                cached = _keyed(self._file("memory", name, "memory.stat")).get("inactive_file", 0)
            else:
                cpu = int(self._file("cpuacct", name, "cpuacct.usage").read_text())
                used = int(self._file("memory", name, "memory.usage_in_bytes").read_text())
                cached = _keyed(self._file("memory", name, "memory.stat")).get("total_inactive_file", 0)
        except (OSError, KeyError):
            return None
        return CgroupUsage(cpu, max(0, used - cached))

    def names(self) -> set[str]:
        """The cgroups that stand."""
        names: set[str] = set()
        for parent in set(self._parents.values()):
            with contextlib.suppress(FileNotFoundError):
                names.update(entry.name for entry in parent.iterdir() if entry.is_dir())
        return names

    def sweep(self, keep: Iterable[str]) -> None:
        """Kill and take away what belongs to no container of these names."""
        for name in self.names().difference(keep):
            self.destroy(name)

    def destroy(self, name: str) -> None:
        """Nothing in it lives on, and it is gone."""
        folders = self.folders(name)
        for _ in range(1000):
            if not kill_container(folders, 0):
                break
        remove_cgroups(folders)

    def close(self) -> None:
        """The parent goes, too, where it is empty: in every hierarchy, since runc uses them all."""
        for mount in (self._mount, *(path for path in self._mount.iterdir() if path.is_dir())):
            parent = mount / self._name
            for child in [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else ():
                with contextlib.suppress(OSError):  # it has processes: it stays, and the parent with it
                    child.rmdir()
            if parent.is_dir() and not any(path.is_dir() for path in parent.iterdir()):
                remove_cgroups([str(parent)])

    def _file(self, controller: str, name: str, file: str) -> Path:
        return self._parents["" if self.version == 2 else controller] / name / file

    def _network_folder(self, name: str) -> Path:
        return self._parents["" if self.version == 2 else _UNIFIED] / name

    def _no_unified(self) -> str:
        """Why there is no cgroup of version 2 for containers; "": there is."""
        if self.version == 2:
            return ""
        place = self._mount / _UNIFIED
        if not (place / "cgroup.controllers").exists():
            return f"there are no cgroups of version 2 at {place}"
        try:
            (place / self._name).mkdir(exist_ok=True)
        except OSError as error:
            return f"{error.filename or place}: {error.strerror}"
        self._parents[_UNIFIED] = place / self._name
        return ""

    def _disk_settings(self, rate: int) -> Iterator[tuple[str, str, str]]:
        """For reads and writes; the kernel counts what goes to the disk, not what stays in memory."""
        if self.no_disk_limits:
            return
        for disk in self._disks:
            if self.version == 2:
                yield _IO, "io.max", f"{disk} rbps={rate} wbps={rate}"
                continue
            yield _BLKIO, "blkio.throttle.read_bps_device", f"{disk} {rate}"
            yield _BLKIO, "blkio.throttle.write_bps_device", f"{disk} {rate}"

    def _settings(self, limits: CgroupLimits) -> Iterator[tuple[str, str, int | str]]:
        shares = max(2, limits.cpu_request * 1024 // 1000)
        quota = None if limits.cpu is None else max(1000, limits.cpu * _PERIOD // 1000)
        if limits.disk is not None:
            yield from self._disk_settings(limits.disk)
        if self.version == 2:
            # The kernel's weights go from 1 to 10,000 where shares go from 2 to 262,144.
            yield "cpu", "cpu.weight", min(10_000, 1 + (shares - 2) * 9999 // 262_142)
            yield "pids", "pids.max", limits.processes
            if quota is not None:
                yield "cpu", "cpu.max", f"{quota} {_PERIOD}"
            if limits.memory is not None:
                yield "memory", "memory.max", limits.memory
                yield "memory", "memory.oom.group", 1
            return
        yield "cpu", "cpu.shares", min(shares, 262_144)
        yield "pids", "pids.max", limits.processes
        if quota is not None:
            yield "cpu", "cpu.cfs_period_us", _PERIOD
            yield "cpu", "cpu.cfs_quota_us", quota
        if limits.memory is not None:
            yield "memory", "memory.limit_in_bytes", limits.memory


def _enable(folder: Path) -> None:
    """Children of this cgroup get the controllers."""
    active = (folder / "cgroup.subtree_control").read_text().split()
    for controller in _V2:
        if controller not in active:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _enable_io(folder: Path) -> bool:
    """Children of this cgroup get the controller of disks, where the kernel offers it here."""
    if _IO not in (folder / "cgroup.controllers").read_text().split():
        return False
    if _IO not in (folder / "cgroup.subtree_control").read_text().split():
        (folder / "cgroup.subtree_control").write_text(f"+{_IO}")
    return True


def _no_disk_limits(version: int, *, throttles: bool, disks: Sequence[str]) -> str:
    if not disks:
        return "the node's folder lies on no disk of its own"
    if not throttles:
        controller = _IO if version == 2 else _BLKIO
        return f"this machine's cgroups have no controller {controller} that throttles"
    return ""


def _keyed(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in path.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
