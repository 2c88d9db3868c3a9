"""What only real processes show: Ctrl-C, readers that leave early, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.processes import PROC, cpu_seconds, deaf_workers, members, started, wait_for, workers
from tests.cli.runner import assert_refused, command, environment, run_process

pytestmark = pytest.mark.skipif(not PROC.is_dir(), reason="looks for processes in /proc")

LONG = ("compare", "pods", "--scenario", "large", "--policies", "kube,kube_plus", "--seeds", "30")
"""Goes on for a minute and more."""
STARTED_CPU_SECONDS = 3.0
"""Imports take less; after so much the work is going on, however long that took."""


@dataclass(frozen=True)
class Interrupted:
    """How an interrupted command ended."""

    code: int
    err: str
    seconds: float
    left: list[int]
    files: list[Path]


def interrupt(folder: Path, *words: str, workers: int) -> Interrupted:
    """Press Ctrl-C while the work is going on, and see what is left."""
    with started(folder, *words) as process:
        if workers:
            wait_for(lambda: deaf_workers(process.pid) == [True] * workers)
        else:
            wait_for(lambda: cpu_seconds(process.pid) > STARTED_CPU_SECONDS)
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=90)[1].decode()
        seconds = time.monotonic() - begin
        wait_for(lambda: not members(process.pid))
        return Interrupted(process.returncode, err, seconds, members(process.pid), sorted(folder.rglob("*")))


@pytest.fixture(scope="module", params=["2", "1"])
def interrupted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A comparison that was interrupted, on two processes and on one."""
    workers = 2 if request.param == "2" else 0
    folder = tmp_path_factory.mktemp("interrupted")
    return interrupt(folder, *LONG, "--processes", request.param, workers=workers)


def test_an_interrupt_is_quick_and_says_one_line(interrupted: Interrupted) -> None:
    assert interrupted.seconds < 20  # it is over at once where the machine is not busy
    assert interrupted.err.startswith("proreus: interrupted")
    assert interrupted.err.count("\n") == 1


def test_an_interrupt_leaves_nothing_behind(interrupted: Interrupted) -> None:
    assert interrupted.left == []
    assert interrupted.files == []


def test_an_interrupt_has_its_own_exit_code(interrupted: Interrupted) -> None:
    assert interrupted.code == 130


def test_workers_are_deaf_to_interrupts_from_their_start(tmp_path: Path) -> None:
    with started(tmp_path, *LONG, "--processes", "2") as process:
        wait_for(lambda: len(deaf_workers(process.pid)) == 2)
        assert deaf_workers(process.pid) == [True, True]


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, *LONG, "--processes", "2") as process:
        wait_for(lambda: deaf_workers(process.pid) == [True, True])
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not workers(process.pid))
        assert workers(process.pid) == []


@pytest.mark.parametrize(
    "words", [("--help",), ("simulate", "--help"), ("data", "list"), ("simulate", "pods")], ids=" ".join
)
def test_a_reader_that_leaves_early_sees_no_traceback(words: tuple[str, ...], tmp_path: Path) -> None:
    """As in `proreus ... | head -1`."""
    process = subprocess.Popen(
        command(*words), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # before anything is written
    said = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert said == b""


def test_head_of_an_explanation(tmp_path: Path) -> None:
    line = " ".join(command("simulate", "pods", "--explain", "app-000-0")) + " | head -1"
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=environment(), capture_output=True, timeout=60, check=False
    )
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("data", "list"),
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"proreus: ") and done.stderr.count(b"\n") == 1


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    ended = run_process("simulate", "pods", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")
    assert_refused(
        run_process("simulate", "pods", "--policy", "ü", cwd=tmp_path, PYTHONIOENCODING="ascii"), 2
    )
