"""What a runtime left behind on the machine: processes, mounts, cgroups."""

from __future__ import annotations

import time
from pathlib import Path


def processes(mark: str) -> list[str]:
    """Those, zombies aside, with `mark` in their command line or environment."""
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            words = command + b"\0" + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in words and state != "Z":
            processes.append(f"{entry.name}: {command[:200]!r}")
    return processes


def mounts(mark: str) -> list[str]:
    """Lines of the mount table that name it."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]


def cgroups(name: str) -> list[str]:
    """The cgroup of that name, in any hierarchy."""
    root = Path("/sys/fs/cgroup")
    parents = [root / name, *(path / name for path in root.iterdir() if path.is_dir())]
    return [str(parent) for parent in parents if parent.is_dir()]


def assert_nothing_left(mark: str, cgroup: str, patience: float = 60.0) -> None:
    """Soon nothing is there."""
    end = time.monotonic() + patience
    while True:
        left = processes(mark) + mounts(mark) + cgroups(cgroup)
        if not left:
            return
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.05)
