"""Work on a real Ray cluster, in a network of its own where there is only loopback: Ray opens many ports."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proreus.learning.run_folder import read_journal
from tests.cli.runner import Ended, Proreus, assert_refused, command, environment

pytestmark = pytest.mark.timeout(1200)  # Ray takes its time to start where others work, too

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

# A process and network namespace: nothing of Ray can reach the outside, or outlive the shell.
ALONE = ("unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child")
ADDRESS = "127.0.0.1:6390"
HEAD = f"start --head --node-ip-address 127.0.0.1 --port {ADDRESS.rpartition(':')[2]} --num-cpus 2"
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


class AloneShell:
    """A shell with loopback as its only network; its home is its own: Ray leaves a token there."""

    def __init__(self, home: Path) -> None:
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        self._shell = subprocess.Popen(
            [*ALONE, "sh"],
            cwd=home,
            # Ray's workers give way to everybody else; on a busy machine they would never get to work.
            env=environment(HOME=str(home), XDG_CACHE_HOME=cache, RAY_worker_niceness="0"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._home = home
        assert self.run(home, "ip link set lo up").code == 0

    def run(self, folder: Path, script: str, *words: str) -> Ended:
        """Run a shell script in a folder, to its end."""
        folder.mkdir(exist_ok=True)
        out, err = self._home / "out.txt", self._home / "err.txt"
        line = shlex.join(["sh", "-c", script, "sh", *words])
        command = f"(cd {shlex.quote(str(folder))} && {line}) >{out} 2>{err} </dev/null; echo $?\n"
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(command)
        self._shell.stdin.flush()
        return Ended(int(self._shell.stdout.readline()), out.read_text(), err.read_text())

    def end(self) -> None:
        """With everything that runs beside it."""
        self._shell.kill()
        self._shell.communicate()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AloneShell]:
    """Skips where there is no Ray, or the kernel gives no namespaces; a cluster runs at ADDRESS."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra ray")
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    tried = subprocess.run([*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no network of its own: {tried.stderr.decode().strip()}")
    shell = AloneShell(tmp_path_factory.mktemp("home"))
    try:
        head = f"{sys.executable} -m ray.scripts.scripts {HEAD} --include-dashboard false"
        started = shell.run(tmp_path_factory.mktemp("head"), f"{head} --disable-usage-stats")
        assert started.code == 0, started
        yield shell
    finally:
        shell.end()


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
    rows: list[Any] = json.loads(file.read_text())["rows"]
    return [row for row in rows if row["measure"] != "decisions_per_s"]


@pytest.mark.usefixtures("workers_here")
def test_an_evolution_that_loses_a_ray_worker_goes_on_without_ray(
    alone: AloneShell, proreus: Proreus, tmp_path: Path
) -> None:
    """Its cluster is one that it starts for itself, beside the one that is there."""
    words = command(*EVOLUTION, "--ray", "local", "--processes", "2", "--out", "out")
    lost = alone.run(tmp_path / "ray", KILLING, "run_candidate", "3", *words)
    assert_refused(lost, 1, "a Ray worker was lost in training", "go on with --resume out")
    run = tmp_path / "ray/out"
    assert 3 <= len(read_journal(run)) < 30
    assert proreus("train", "pods", "--resume", str(run)).code == 0
    assert proreus(*EVOLUTION, "--out", "unbroken").code == 0
    assert untimed(run) == untimed(tmp_path / "unbroken")
    assert weights(run, "best") == weights(tmp_path / "unbroken", "best")


@pytest.mark.parametrize("words", [MACHINES, WINDOWS], ids=["vms", "rebalance"])
def test_an_evolution_is_the_same_over_ray(
    alone: AloneShell, words: tuple[str, ...], proreus: Proreus, tmp_path: Path
) -> None:
    """Threads here, or tasks of a cluster: members are rated alike."""
    argv = command(*words, "--ray", ADDRESS, "--out", "out")
    ended = alone.run(tmp_path / "ray", '"$@"', *argv)
    assert ended.code == 0, ended
    assert proreus(*words, "--processes", "2", "--out", "here").code == 0
    assert untimed(tmp_path / "ray/out") == untimed(tmp_path / "here")
    assert weights(tmp_path / "ray/out", "best") == weights(tmp_path / "here", "best")


def test_ppo_that_loses_a_ray_actor_goes_on_without_ray(
    alone: AloneShell, proreus: Proreus, tmp_path: Path
) -> None:
    words = command(*PPO, "--ray", ADDRESS, "--out", "out")
    lost = alone.run(tmp_path / "ray", KILLING, "LaneHost", "40", *words)
    assert_refused(lost, 1, "a Ray worker was lost while the lanes played", "go on with --resume out")
    run = tmp_path / "ray/out"
    assert len(read_journal(run)) >= 40
    assert proreus("train", "pods", "--resume", str(run)).code == 0
    assert proreus(*PPO, "--out", "unbroken").code == 0
    assert untimed(run) == untimed(tmp_path / "unbroken")
    for which in ("best", "last"):
        assert weights(run, which) == weights(tmp_path / "unbroken", which)


def test_a_comparison_on_a_cluster_that_is_there_already(
    alone: AloneShell, proreus: Proreus, tmp_path: Path
) -> None:
    """And addresses where there is none are refused at once."""
    script = f"""
"$@" --ray {ADDRESS} --json rows.json; echo "code $?"
"$@" --ray 127.0.0.1:6391; echo "code $?"
"$@" --ray somewhere; echo "code $?"
"""
    ended = alone.run(tmp_path / "ray", script, *command(*COMPARISON))
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
