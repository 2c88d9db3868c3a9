"""How the tests call the command line, and what every failed command must look like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import proreus

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,4000,8192,0,\nn-1,8000,16384,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
    "p-0,1000,1024,0,0,10,70\n"
    "p-1,2000,2048,1,500,11,\n"
    "p-2,3000,1024,0,0,12,52\n"
)


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


Proreus = Callable[..., Ended]
"""Runs the words of a command line in this process."""


def environment(**changes: str) -> dict[str, str]:
    """For real processes: this package wherever the process starts, no data folder."""
    source = str(Path(proreus.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if name != "PROREUS_DATA"}
    return {**kept, "PYTHONPATH": source, **changes}


def command(*words: str) -> list[str]:
    """The command line of a real process."""
    return [sys.executable, "-m", "proreus", *words]


def run_process(*words: str, cwd: Path, encoding: str = "utf-8", **changes: str) -> Ended:
    """Run a real process to its end; `encoding` is that of what it says."""
    done = subprocess.run(
        command(*words), cwd=cwd, env=environment(**changes), capture_output=True, timeout=120, check=False
    )
    return Ended(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))


def assert_refused(ended: Ended, code: int, *says: str) -> None:
    """The exit code, and exactly one line on stderr that says all of `says`."""
    assert ended.code == code, ended
    assert ended.err.startswith("proreus: "), ended.err
    assert ended.err.count("\n") == 1 and ended.err.endswith("\n"), ended.err
    assert "Traceback" not in ended.err
    for part in says:
        assert part in ended.err


def openb_files(folder: Path, nodes: str = NODES, pods: str = PODS) -> list[str]:
    """Writes a small workload in openb's format; returns the flags that read it."""
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(pods)
    return ["--format", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv"]
