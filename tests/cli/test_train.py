"""`proreus train`: its flags by algorithm, runs that end early in every way, and their resumption."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from cli.processes import PROC, members, started, wait_for, workers
from cli.runner import Ended, Proreus, assert_refused, command, environment, openb_files
from inline_pool import InlinePool
from proreus.learning.runs import read_journal

needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="looks for processes in /proc")

EVOLUTION = (
    *("--scenarios", "gpu@6", "--population", "4", "--train-seeds", "2", "--validation-seeds", "1"),
    *("--evaluate-every", "2"),
)
DDQN = (
    *("--algo", "ddqn", "--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1", "--hidden", "16"),
    *("--validation-seeds", "1", "--warm-up", "64", "--report-every", "100", "--evaluate-every", "2"),
)
PPO = (
    *("--algo", "ppo", "--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1", "--lanes", "8"),
    *("--validation-seeds", "1", "--rollout-steps", "16", "--evaluate-every", "2", "--steps", "768"),
)


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evolutions in this process need no workers."""
    monkeypatch.setattr("proreus.cli.train_es.pool_of", lambda workers, tasks: nullcontext(InlinePool()))


def fitness(run: Path) -> list[Any]:
    """What the search learned from."""
    return [entry["fitness"] for entry in read_journal(run)]


def weights(run: Path, which: str = "best") -> bytes:
    """The numbers of a run's checkpoint."""
    return (run / which / "weights.safetensors").read_bytes()


def ended(process: subprocess.Popen[bytes]) -> Ended:
    """A process that shall be over soon."""
    err = process.communicate(timeout=60)[1].decode()
    return Ended(process.returncode, "", err)


def test_ddqn_from_training_to_comparison(proreus: Proreus, tmp_path: Path) -> None:
    """Train, draw the curve, simulate and compare: a checkpoint is a policy like any other."""
    assert proreus("train", "pods", *DDQN, "--steps", "400", "--out", "run", "--json", "r.json").code == 0
    summary = json.loads((tmp_path / "r.json").read_text())
    assert (summary["algorithm"], summary["steps"], list(summary["validation"])) == ("ddqn", 400, ["gpu@5"])
    assert list((tmp_path / "run/tensorboard").glob("events.out.tfevents.*"))
    assert proreus("curve", "run", "--json", "curve.json").code == 0
    assert [x for x, _ in json.loads((tmp_path / "curve.json").read_text())["curves"]["run"]] == [2, 4]
    shown = proreus("simulate", "pods", "--scenario", "gpu@5", "--policy", "run")
    assert (shown.code, shown.err) == (0, "") and "run on gpu@5" in shown.out
    flags = ["--scenario", "gpu@5", "--policies", "fgd,run", "--seeds", "2", "--processes", "1"]
    assert proreus("compare", "pods", *flags, "--json", "rows.json").code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {row["policy"] for row in rows} == {"fgd", "run"}


def test_each_algorithm_has_its_own_flags(proreus: Proreus) -> None:
    assert_refused(proreus("train", "pods", "--algo", "ppo", "--generations", "3"), 2, "--generations")
    assert_refused(proreus("train", "pods", "--algo", "sarsa"), 2, "sarsa", "ddqn")
    assert_refused(proreus("train", "pods", "--algo"), 2, "--algo")
    assert_refused(proreus("train", "pods", "--seed", "-1"), 2, "--seed is negative")
    assert_refused(proreus("train", "pods", "--algo", "ddqn", "--ray", "local"), 2, "ddqn", "one process")
    assert "--epsilon-points" in proreus("train", "pods", "--algo", "ddqn", "--help").out
    assert "--threads" not in proreus("train", "pods", "--algo", "ppo", "--help").out


def test_a_missing_extra_is_one_line(proreus: Proreus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for algorithm in ("es", "ddqn"):
        assert_refused(proreus("train", "pods", "--algo", algorithm), 2, algorithm, "proreus[learn]")
    flags = ("--ray", "local", "--policies", "fgd", "--seeds", "1")
    assert_refused(proreus("compare", "pods", *flags), 2, "--ray needs the extra `ray`", "proreus[ray]")


@pytest.mark.parametrize(
    "flags",
    [("--scenarios", "small,gpu", "--algo", "ppo"), ("--scenarios", "gpu@5", "--reward", "completion")],
)
def test_a_run_that_cannot_begin_leaves_its_name_free(
    flags: tuple[str, ...], proreus: Proreus, tmp_path: Path
) -> None:
    refused = proreus("train", "pods", "--algo", "ppo", *flags, "--lanes", "2", "--out", "run")
    assert_refused(refused, 2)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_knows_what_it_was_trained_on(proreus: Proreus, tmp_path: Path) -> None:
    """Files of one's own, by relative paths, and pods that wait or are dropped: nothing is said again."""
    files = openb_files(tmp_path)
    short = (
        *("--algo", "ppo", "--steps", "64", "--lanes", "2", "--rollout-steps", "8", "--train-seeds", "1"),
        *("--validation-seeds", "1", "--evaluate-every", "1", "--horizon", "40"),
    )
    assert proreus("train", "pods", *short, *files, "--drop-failures", "True", "--out", "a").code == 0
    settings = json.loads((tmp_path / "a/settings.json").read_text())
    (scenario,) = settings["scenarios"]
    assert scenario["options"]["drop_failures"] is True and scenario["name"] == "openb:pods.csv"
    assert scenario["source"]["pods"] == str(tmp_path / "pods.csv")
    (tmp_path / "b").mkdir()
    shutil.copytree(tmp_path / "a", tmp_path / "b/run")
    journal = tmp_path / "b/run/journal.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    (tmp_path / "b/run/state.safetensors").unlink()  # as if it had been killed before its first judgement
    os.chdir(tmp_path / "b")
    assert proreus("train", "pods", "--resume", "run", "--processes", "1").code == 0
    assert weights(tmp_path / "b/run", "last") == weights(tmp_path / "a", "last")


def test_settings_that_are_none_are_refused(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("train", "pods", *PPO, "--out", "run").code == 0
    file = tmp_path / "run/settings.json"
    good = json.loads(file.read_text())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"algorithm": "sarsa"}, "no algorithm is called 'sarsa'"),
        ({"scenarios": ["gpu"]}, "scenarios: cannot be resumed"),
        ({"config": {**good["config"], "steps": 0}}, "config: cannot be resumed"),
        ({"config": []}, "config"),
    ]
    for change, says in changes:
        file.write_text(json.dumps({**good, **change}))
        assert_refused(proreus("train", "pods", "--resume", "run"), 2, says)


@needs_proc
@pytest.mark.usefixtures("workers_here")
def test_a_killed_worker_ends_an_evolution_that_then_goes_on(proreus: Proreus, tmp_path: Path) -> None:
    whole = ("train", "pods", *EVOLUTION, "--generations", "5", "--processes", "2")
    with started(tmp_path, *whole) as process:
        journal = tmp_path / "out/journal.jsonl"
        wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 2)
        os.kill(workers(process.pid)[0], signal.SIGKILL)
        assert_refused(ended(process), 1, "a worker process died", "go on with --resume out")
        wait_for(lambda: not members(process.pid), 10)
        assert members(process.pid) == []
    before = fitness(tmp_path / "out")
    assert 2 <= len(before) < 5
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
        wait_for(lambda: not members(process.pid), 10)
        assert members(process.pid) == []


@needs_proc
@pytest.mark.parametrize("flags", [(*DDQN, "--steps", "1200"), PPO], ids=["ddqn", "ppo"])
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
    flags = ("train", "pods", *EVOLUTION, "--generations", "3")
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
