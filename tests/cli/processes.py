"""Real processes of the command line, what is in their group, and how to end them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.runner import command, environment

PROC = Path("/proc")


def members(group: int) -> list[int]:
    """Living processes of a process group; a zombie is not alive."""
    members = []
    for folder in PROC.iterdir():
        try:
            state, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of) == group and state != "Z":
            members.append(int(folder.name))
    return members


def workers(group: int, named: bytes = b"spawn_main") -> list[int]:
    """The worker processes of a group, by a word of their command line."""
    workers = []
    for member in members(group):
        try:
            if named in (PROC / str(member) / "cmdline").read_bytes():
                workers.append(member)
        except OSError:
            continue
    return workers


def deaf_workers(group: int) -> list[bool]:
    """Per worker of a process group, whether Ctrl-C passes it by (it ignores or blocks SIGINT)."""
    deaf_workers = []
    for worker in workers(group):
        try:
            lines = (PROC / str(worker) / "status").read_text().splitlines()
        except OSError:
            continue
        masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigIgn", "SigBlk"))]
        deaf_workers.append(any(mask >> (signal.SIGINT - 1) & 1 for mask in masks))
    return deaf_workers


def cpu_seconds(process: int) -> float:
    """What it has computed so far; waiting for a processor is not counted."""
    fields = (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it is so, or the time is up."""
    deadline = time.monotonic() + seconds
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.02)


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, of which nothing is left afterwards."""
    process = subprocess.Popen(
        command(*words, "--out", "out", "--json", "result.json"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for survivor in members(process.pid):
            os.kill(survivor, signal.SIGKILL)
        process.communicate()
