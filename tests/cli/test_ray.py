"""Work on a real Ray cluster, in a network of its own where there is only loopback: Ray opens many ports."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from proreus.learning.runs import read_journal
from tests.cli.runner import Ended, Proreus, assert_refused, command, environment
from tests.inline_pool import InlinePool

EVOLUTION = (
    *("train", "pods", "--scenarios", "gpu@6", "--population", "4", "--train-seeds", "2"),
    *("--validation-seeds", "1", "--evaluate-every", "3", "--generations", "30"),
)
PPO = (
    *("train", "pods", "--algo", "ppo", "--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1"),
    *("--lanes", "8", "--validation-seeds", "1", "--rollout-steps", "16", "--evaluate-every", "20"),
    *("--steps", "25600"),
)
FEW = ("--population", "4", "--generations", "3", "--evaluate-every", "2")
MACHINES = ("train", "vms", "--scenario", "waiting@2", *FEW, "--starts", "4", "--validation-starts", "4")
WINDOWS = (
    *("train", "rebalance", *FEW, "--deployments", "1", "--train-seeds", "2", "--validation-seeds", "1"),
    *("--stretch", "12"),
)
COMPARISON = ("compare", "pods", "--scenario", "gpu@6", "--policies", "fgd,random", "--seeds", "3")

# A process and network namespace: nothing of Ray can reach the outside, or outlive the script.
ALONE = ("unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child")
# Runs a command until its journal has so many lines, then kills workers of that name until it has ended.
KILLING = """
name=$1; lines=$2; shift 2
"$@" & pid=$!
while kill -0 $pid 2>/dev/null && [ "$(cat out/journal.jsonl 2>/dev/null | wc -l)" -lt "$lines" ]; do
  sleep 0.05
done
while kill -0 $pid 2>/dev/null; do
  for folder in /proc/[0-9]*; do
    if grep -qs "^ray::$name" "$folder/cmdline"; then kill -9 "${folder#/proc/}"; fi
  done
  sleep 0.05
done
wait $pid
"""


def alone(folder: Path, script: str, *words: str) -> Ended:
    """Run a shell script with loopback as its only network; its home is its own: Ray leaves a token there."""
    folder.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    done = subprocess.run(
        [*ALONE, "sh", "-c", f"ip link set lo up || exit 99\n{script}", "sh", *words],
        cwd=folder,
        env=environment(HOME=str(folder), XDG_CACHE_HOME=cache),
        capture_output=True,
        timeout=100,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module", autouse=True)
def can_be_alone() -> None:
    """Skips where there is no Ray, or the kernel gives no namespaces."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra ray")
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    tried = subprocess.run([*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no network of its own: {tried.stderr.decode().strip()}")


def untimed(run: Path) -> str:
    """A run's journal without what depends on the clock."""
    timed = ("seconds", "steps_per_second")
    entries = [{k: v for k, v in entry.items() if k not in timed} for entry in read_journal(run)]
    return json.dumps(entries)


def weights(run: Path, which: str) -> bytes:
    """The numbers of a run's checkpoint."""
    return (run / which / "weights.safetensors").read_bytes()


def rows(file: Path) -> list[Any]:
    """What a comparison found, without how fast it was."""
    found: list[Any] = json.loads(file.read_text())["rows"]
    return [row for row in found if row["measure"] != "decisions_per_s"]


def test_an_evolution_that_loses_a_ray_worker_goes_on_without_ray(
    proreus: Proreus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command(*EVOLUTION, "--ray", "local", "--processes", "2", "--out", "out")
    lost = alone(tmp_path / "ray", KILLING, "run_candidate", "3", *words)
    assert_refused(lost, 1, "a Ray worker was lost in training", "go on with --resume out")
    monkeypatch.setattr("proreus.learning.task.pool_of", lambda *_, **__: nullcontext(InlinePool()))
    run = tmp_path / "ray/out"
    assert 3 <= len(read_journal(run)) < 30
    assert proreus("train", "pods", "--resume", str(run)).code == 0
    assert proreus(*EVOLUTION, "--out", "unbroken").code == 0
    assert untimed(run) == untimed(tmp_path / "unbroken")
    assert weights(run, "best") == weights(tmp_path / "unbroken", "best")


@pytest.mark.parametrize("words", [MACHINES, WINDOWS], ids=["vms", "rebalance"])
def test_an_evolution_is_the_same_over_ray(words: tuple[str, ...], proreus: Proreus, tmp_path: Path) -> None:
    """Threads here, or tasks of a cluster: members are rated alike."""
    told = command(*words, "--ray", "local", "--processes", "2", "--out", "out")
    assert alone(tmp_path / "ray", '"$@"', *told).code == 0
    assert proreus(*words, "--processes", "2", "--out", "here").code == 0
    assert untimed(tmp_path / "ray/out") == untimed(tmp_path / "here")
    assert weights(tmp_path / "ray/out", "best") == weights(tmp_path / "here", "best")


def test_ppo_that_loses_a_ray_actor_goes_on_without_ray(proreus: Proreus, tmp_path: Path) -> None:
    words = command(*PPO, "--ray", "local", "--processes", "2", "--out", "out")
    lost = alone(tmp_path / "ray", KILLING, "LaneHost", "40", *words)
    assert_refused(lost, 1, "a Ray worker was lost while the lanes played", "go on with --resume out")
    run = tmp_path / "ray/out"
    assert len(read_journal(run)) >= 40
    assert proreus("train", "pods", "--resume", str(run)).code == 0
    assert proreus(*PPO, "--out", "unbroken").code == 0
    assert untimed(run) == untimed(tmp_path / "unbroken")
    for which in ("best", "last"):
        assert weights(run, which) == weights(tmp_path / "unbroken", which)


def test_a_comparison_on_a_cluster_that_is_there_already(proreus: Proreus, tmp_path: Path) -> None:
    """And addresses where there is none are refused at once."""
    head = "start --head --node-ip-address 127.0.0.1 --port 6390 --num-cpus 2 --include-dashboard false"
    script = f"""
{sys.executable} -m ray.scripts.scripts {head} --disable-usage-stats >/dev/null 2>&1 || exit 98
"$@" --ray 127.0.0.1:6390 --json rows.json; echo "code $?"
"$@" --ray 127.0.0.1:6391; echo "code $?"
"$@" --ray somewhere; echo "code $?"
"""
    ended = alone(tmp_path / "ray", script, *command(*COMPARISON))
    assert [line for line in ended.out.splitlines() if line.startswith("code")] == [
        "code 0",
        "code 1",
        "code 2",
    ]
    nobody, nonsense = ended.err.splitlines()
    assert nobody.startswith("proreus: --ray 127.0.0.1:6391: nobody answers there")
    assert nonsense.startswith("proreus: --ray somewhere: Invalid address")
    assert proreus(*COMPARISON, "--processes", "1", "--json", "rows.json").code == 0
    assert rows(tmp_path / "ray/rows.json") == rows(tmp_path / "rows.json")
