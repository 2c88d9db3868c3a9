"""Training that ends early, in every way: one line says so, nothing saved is lost, and it goes on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from tests.cli.processes import PROC, members, started, wait_for, workers
from tests.cli.runner import Ended, Proreus, assert_refused, command, environment
from tests.cli.train_cases import DDQN, EVOLUTION, PPO, fitness, weights

needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="looks for processes in /proc")


def ended(process: subprocess.Popen[bytes]) -> Ended:
    """A process that shall be over soon."""
    err = process.communicate(timeout=120)[1].decode()
    return Ended(process.returncode, "", err)


@needs_proc
@pytest.mark.usefixtures("workers_here")
def test_a_killed_worker_ends_an_evolution_that_then_goes_on(proreus: Proreus, tmp_path: Path) -> None:
    whole = ("train", "pods", *EVOLUTION, "--generations", "20", "--processes", "2")
    with started(tmp_path, *whole) as process:
        journal = tmp_path / "out/journal.jsonl"
        # The start, then generations.
        wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 3)
        os.kill(workers(process.pid)[0], signal.SIGKILL)
        assert_refused(ended(process), 1, "a worker process died", "go on with --resume out")
        wait_for(lambda: not members(process.pid))
        assert members(process.pid) == []
    before = fitness(tmp_path / "out")
    assert 2 <= len(before) < 20
    assert proreus("train", "pods", "--resume", "out").code == 0
    assert proreus(*whole, "--out", "unbroken").code == 0
    assert fitness(tmp_path / "out") == fitness(tmp_path / "unbroken")
    assert fitness(tmp_path / "out")[: len(before)] == before
    assert weights(tmp_path / "out") == weights(tmp_path / "unbroken")


@needs_proc
def test_a_killed_worker_ends_a_comparison(tmp_path: Path) -> None:
    long = ("compare", "pods", "--scenario", "large", "--policies", "kube,kube_plus", "--seeds", "30")
    with started(tmp_path, *long, "--processes", "2") as process:
        wait_for(lambda: len(workers(process.pid)) == 2)
        os.kill(workers(process.pid)[0], signal.SIGKILL)
        assert_refused(ended(process), 1, "a worker process died after", "try fewer processes")
        wait_for(lambda: not members(process.pid))
        assert members(process.pid) == []


@needs_proc
@pytest.mark.parametrize(
    "flags", [(*DDQN, "--steps", "1000"), (*PPO, "--steps", "12800")], ids=["ddqn", "ppo"]
)
def test_an_interrupted_run_goes_on_to_the_same_end(
    flags: Sequence[str], proreus: Proreus, tmp_path: Path
) -> None:
    """Ctrl-C in a real process, whenever it comes: saved, one line, exit code 130."""
    with started(tmp_path, "train", "pods", *flags) as process:
        journal = tmp_path / "out/journal.jsonl"
        wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 1)
        os.kill(process.pid, signal.SIGINT)
        assert_refused(ended(process), 130, "interrupted and saved: go on with --resume out")
    assert weights(tmp_path / "out", "last")
    assert proreus("train", "pods", "--resume", "out").code == 0
    assert proreus("train", "pods", *flags, "--out", "unbroken").code == 0
    for which in ("last", "best"):
        assert weights(tmp_path / "out", which) == weights(tmp_path / "unbroken", which)
    states = [(tmp_path / run / "state.safetensors").read_bytes() for run in ("out", "unbroken")]
    assert states[0] == states[1]


def test_a_loss_that_is_no_number_is_one_line(proreus: Proreus, tmp_path: Path) -> None:
    flags = (*DDQN, "--steps", "400", "--learning-rate", "1e38", "--warm-up", "220", "--out", "run")
    assert_refused(proreus("train", "pods", *flags), 1, "ddqn: the loss is", "go on with --resume run")
    assert proreus("simulate", "pods", "--scenario", "gpu@5", "--policy", "run").code == 0


def in_small_disk(tmp_path: Path, kilobytes: int, *words: str) -> Ended:
    """Run a command in a file system of so many kilobytes; what is in it afterwards is copied to `left`."""
    disk, left = tmp_path / "disk", tmp_path / "left"
    disk.mkdir()
    script = (
        f'mount -t tmpfs -o size={kilobytes}k none "{disk}" || exit 99; cd "{disk}"; "$@"; code=$?; '
        f'cp -r "{disk}" "{left}"; exit $code'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command(*words)],
        env=environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 99 or b"unshare:" in done.stderr:
        pytest.skip(f"no file system of its own: {done.stderr.decode().strip()}")
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_full_disk_loses_nothing_that_was_saved(proreus: Proreus, tmp_path: Path) -> None:
    """The memory of ddqn grows from judgement to judgement, until the disk is full."""
    flags = ("train", "pods", *DDQN, "--steps", "600", "--capacity", "2000")
    full = in_small_disk(tmp_path, 1000, *flags, "--out", "run")
    assert_refused(full, 1, "state.safetensors: cannot be written: No space left on device", "--resume run")
    left = tmp_path / "left/run"
    assert not list(left.rglob("*.tmp"))
    assert proreus("simulate", "pods", "--scenario", "gpu@5", "--policy", str(left)).code == 0
    assert proreus("train", "pods", "--resume", str(left)).code == 0
    assert proreus(*flags, "--out", "unbroken").code == 0
    for which in ("last", "best"):
        assert weights(left, which) == weights(tmp_path / "unbroken", which)


@pytest.mark.usefixtures("workers_here")
def test_a_disk_that_is_full_at_any_moment_loses_nothing(
    proreus: Proreus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many files can be made durable; then there is no room, and later there is again."""
    flags = ("train", "pods", *EVOLUTION, "--generations", "2", "--evaluate-every", "1")
    room = [10**9]

    def sync(file: int) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", sync)
    assert proreus(*flags, "--out", "unbroken").code == 0
    needed = 10**9 - room[0]
    assert needed > 8
    for writes in range(needed):
        room[0] = writes
        run = tmp_path / f"run-{writes}"
        assert_refused(proreus(*flags, "--out", str(run)), 1, "cannot be written: No space left on device")
        assert not list(tmp_path.rglob("*.tmp"))
        room[0] = 10**9
        begun = (run / "settings.json").exists()
        assert proreus(*(("train", "pods", "--resume") if begun else (*flags, "--out")), str(run)).code == 0
        assert fitness(run) == fitness(tmp_path / "unbroken")
        assert weights(run) == weights(tmp_path / "unbroken")
