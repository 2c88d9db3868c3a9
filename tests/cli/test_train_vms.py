"""`proreus train vms`: QMIX, PPO and DQN from their flags to a policy that plays in a comparison."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.worlds.pods.policies.checkpoint_tensors import PRETRAINED
from tests.cli.processes import PROC, started, wait_for
from tests.cli.runner import Ended, Proreus, assert_refused
from tests.cli.train_cases import weights

SMALL = ("--scenario", "recovering@2", "--limit", "400", "--validation-starts", "4", "--hidden", "8")
ALGORITHMS = {
    "qmix": (
        *("--steps", "64", "--lanes", "4", "--chunk", "8", "--n-step", "4", "--updates", "2"),
        *("--batch-size", "16", "--capacity", "200", "--evaluate-every", "1"),
    ),
    "ppo": ("--steps", "64", "--lanes", "4", "--rollout-steps", "8", "--evaluate-every", "1"),
    "ddqn": (
        *("--steps", "100", "--report-every", "50", "--warm-up", "20", "--batch-size", "16"),
        *("--capacity", "60", "--evaluate-every", "1"),
    ),
}


def train(algorithm: str, *more: str) -> tuple[str, ...]:
    """A short training."""
    return ("train", "vms", "--algo", algorithm, *SMALL, *ALGORITHMS[algorithm], *more)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_from_training_to_comparison(algorithm: str, proreus: Proreus, tmp_path: Path) -> None:
    """Train, draw the curve, simulate and compare: a checkpoint is a policy like any other."""
    ended = proreus(*train(algorithm, "--out", "run", "--json", "r.json"))
    assert (ended.code, ended.err) == (0, "") and "held out: recovering@2" in ended.out
    summary = json.loads((tmp_path / "r.json").read_text())
    assert (summary["algorithm"], list(summary["validation"])) == (algorithm, ["recovering@2"])
    assert list((tmp_path / "run/tensorboard").glob("events.out.tfevents.*"))
    assert json.loads((tmp_path / "run/best/card.json").read_text())["encoding"] == "servers-1"
    assert proreus("curve", "run", "--json", "curve.json").code == 0
    assert [x for x, _ in json.loads((tmp_path / "curve.json").read_text())["curves"]["run"]] == [0, 1, 2]
    quick = ("--scenario", "recovering@2", "--starts", "2", "--limit", "60")
    shown = proreus("simulate", "vms", *quick, "--policy", "run")
    assert (shown.code, shown.err) == (0, "") and "run on recovering@2" in shown.out
    policies = "first_fit,balance_fit,random,run"
    flags = ("--policies", policies, "--seeds", "2", "--processes", "1", "--out", "report")
    assert proreus("compare", "vms", *quick, *flags, "--json", "rows.json").code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {row["policy"] for row in rows} == set(policies.split(","))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--algo", "qmix", "--generations", "3"), "--generations"),
        (("--algo", "sarsa"), "sarsa"),
        (("--algo", "qmix", "--n-step", "65"), "n_step 65 is above the chunk of 64"),
        (("--algo", "qmix", "--epsilon-points", "0", "1"), "epsilon_points and epsilon_values"),
        (("--algo", "qmix", "--learning-rate", "0"), "learning_rate 0.0 is not above 0"),
        (("--algo", "ppo", "--lanes", "0"), "lanes: 0 is not at least 1"),
        (("--algo", "ppo", "--rollout-steps", "0"), "rollout_steps must be at least 1"),
        (("--algo", "ddqn", "--lanes", "4"), "--lanes"),
        (("--algo", "ddqn", "--seed", "-1"), "--seed is negative"),
        (("--algo", "ddqn", "--device", "abacus"), "device 'abacus'"),
        (("--algo", "ppo", "--scenario", "nowhere@3"), "nowhere@3"),
        (("--algo", "ppo", "--ray", "local"), "--ray: ppo learns in one process"),
        (("--algo", "es", "--processes", "-1"), "--processes -1 is negative"),
        (("--algo", "es", "--scenarios", "waiting@2,waiting@3"), "train on one scenario"),
        (("--algo", "qmix", "--scenarios", "waiting@2,waiting@3"), "train on one scenario"),
    ],
)
def test_bad_flags_are_one_line_and_leave_no_run(
    words: tuple[str, ...], says: str, proreus: Proreus, tmp_path: Path
) -> None:
    assert_refused(proreus("train", "vms", *words, "--out", "run"), 2, says)
    assert not (tmp_path / "run").exists()


def test_each_algorithm_has_its_own_flags(proreus: Proreus) -> None:
    assert "--epsilon-points" in proreus("train", "vms", "--algo", "qmix", "--help").out
    assert "--rollout-steps" in proreus("train", "vms", "--algo", "ppo", "--help").out
    assert "--generations" in proreus("train", "vms", "--help").out


def test_a_missing_extra_is_one_line(proreus: Proreus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for algorithm in ("es", "qmix"):
        assert_refused(proreus("train", "vms", "--algo", algorithm), 2, algorithm, "proreus[learn]")


def test_a_run_goes_on_in_its_own_world_by_its_own_algorithm(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus(*train("qmix", "--out", "run")).code == 0
    refused = proreus("train", "vms", "--algo", "ppo", "--resume", "run")
    assert_refused(refused, 2, "--algo ppo", "is a run of qmix")
    assert_refused(proreus("train", "pods", "--resume", "run"), 2, "a run of the world 'vms'", "world")
    (tmp_path / "pods").mkdir()
    settings = {**json.loads((tmp_path / "run/settings.json").read_text()), "world": "pods"}
    (tmp_path / "pods/settings.json").write_text(json.dumps(settings))
    assert_refused(proreus("train", "vms", "--resume", "pods"), 2, "a run of the world 'pods'", "world")
    refused = proreus("simulate", "vms", "--policy", str(PRETRAINED / "pods"))
    assert_refused(refused, 2, "a 'adaptive' policy for 'pods' cannot play in the vms world")
    refused = proreus("simulate", "pods", "--policy", "run")
    assert_refused(refused, 2, "a 'agents' policy for 'vms' cannot play in the pods world")
    assert_refused(proreus(*train("qmix", "--out", "run")), 2, "holds a run already")
    finished = proreus("train", "vms", "--algo", "qmix", "--resume", "run")
    assert finished.code == 0 and "best checkpoint: run/best" in finished.out


@pytest.mark.skipif(not PROC.is_dir(), reason="looks for processes in /proc")
def test_an_interrupted_run_goes_on_to_the_same_end(proreus: Proreus, tmp_path: Path) -> None:
    """Ctrl-C in a real process, whenever it comes: saved, one line, exit code 130."""
    flags = train("qmix", "--steps", "2048", "--evaluate-every", "50")
    with started(tmp_path, *flags) as process:
        journal = tmp_path / "out/journal.jsonl"
        wait_for(lambda: journal.exists() and journal.read_text().count("\n") >= 2)
        os.kill(process.pid, signal.SIGINT)
        assert_refused(_ended(process), 130, "interrupted and saved: go on with --resume out")
    assert proreus("train", "vms", "--resume", "out").code == 0
    assert proreus(*flags, "--out", "unbroken").code == 0
    for which in ("last", "best"):
        assert weights(tmp_path / "out", which) == weights(tmp_path / "unbroken", which)
    states = [(tmp_path / run / "state.safetensors").read_bytes() for run in ("out", "unbroken")]
    assert states[0] == states[1]


def _ended(process: subprocess.Popen[bytes]) -> Ended:
    err = process.communicate(timeout=120)[1].decode()
    return Ended(process.returncode, "", err)
