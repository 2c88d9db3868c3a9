"""`proreus train`: its flags by algorithm, its settings, and what becomes of a checkpoint."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.compare.learning_curves import trained
from proreus.learning.run_folder import read_journal
from tests.cli.runner import PODS, Proreus, assert_refused, openb_files
from tests.cli.train_cases import DDQN, PPO, weights

CROWDED = PODS.splitlines(keepends=True)[0] + "".join(
    f"p-{k},{1000 + 500 * (k % 5)},1024,{k % 2},{500 * (k % 2)},{k},\n" for k in range(14)
)
"""More than the nodes of `openb_files` can take: what fits depends on where they are put."""


def test_ddqn_from_training_to_comparison(proreus: Proreus, tmp_path: Path) -> None:
    """Train, draw the curve, simulate and compare: a checkpoint is a policy like any other."""
    assert proreus("train", "pods", *DDQN, "--steps", "400", "--out", "run", "--json", "r.json").code == 0
    summary = json.loads((tmp_path / "r.json").read_text())
    assert (summary["algorithm"], summary["steps"], list(summary["validation"])) == ("ddqn", 400, ["gpu@5"])
    assert list((tmp_path / "run/tensorboard").glob("events.out.tfevents.*"))
    assert proreus("curve", "run", "--json", "curve.json").code == 0
    assert [x for x, _ in json.loads((tmp_path / "curve.json").read_text())["curves"]["run"]] == [0, 2, 4]
    shown = proreus("simulate", "pods", "--scenario", "gpu@5", "--policy", "run")
    assert (shown.code, shown.err) == (0, "") and "run on gpu@5" in shown.out
    flags = ["--scenario", "gpu@5", "--policies", "fgd,run", "--seeds", "2", "--processes", "1"]
    assert proreus("compare", "pods", *flags, "--json", "rows.json").code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {row["policy"] for row in rows} == {"fgd", "run"}


def test_imitation_from_training_to_comparison(proreus: Proreus, tmp_path: Path) -> None:
    few = ("--steps", "120", "--round-steps", "60", "--train-seeds", "2", "--validation-seeds", "1")
    taught = ("--algo", "imitate", "--scenarios", "gpu@5", "--teacher", "planner", "--futures", "1")
    ended = proreus(
        "train", "pods", *taught, *few, "--confirm-seeds", "2", "--out", "run", "--json", "r.json"
    )
    assert ended.code == 0 and "agreement" in ended.out
    summary = json.loads((tmp_path / "r.json").read_text())
    assert (summary["algorithm"], summary["steps"], list(summary["validation"])) == (
        "imitate",
        120,
        ["gpu@5"],
    )
    assert proreus("curve", "run", "--json", "curve.json").code == 0
    assert [x for x, _ in json.loads((tmp_path / "curve.json").read_text())["curves"]["run"]] == [0, 1, 2]
    agreed = trained(read_journal(tmp_path / "run"))
    assert [place for place, _ in agreed] == [1, 2] and all(0 < share <= 1 for _, share in agreed)
    flags = ["--scenario", "gpu@5", "--policies", "fgd,run/last", "--seeds", "2", "--processes", "1"]
    assert proreus("compare", "pods", *flags).code == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--teacher", "socrates"), ("socrates",)),
        (("--start", "kube"), ("--start kube", "it has no weights")),
        (("--candidates", "1"), ("candidates", "nothing to choose from")),
        (("--ray", "local"), ("imitate", "one process")),
    ],
)
def test_what_cannot_be_imitated_is_one_line(
    flags: tuple[str, ...], words: tuple[str, ...], proreus: Proreus, tmp_path: Path
) -> None:
    few = ("--steps", "10", "--scenarios", "gpu@5", "--out", "run")
    assert_refused(proreus("train", "pods", "--algo", "imitate", *few, *flags), 2, *words)
    assert not (tmp_path / "run").exists()


def test_each_algorithm_has_its_own_flags(proreus: Proreus) -> None:
    assert_refused(proreus("train", "pods", "--algo", "ppo", "--generations", "3"), 2, "--generations")
    assert_refused(proreus("train", "pods", "--algo", "sarsa"), 2, "sarsa", "ddqn")
    assert_refused(proreus("train", "pods", "--algo"), 2, "--algo")
    assert_refused(proreus("train", "pods", "--seed", "-1"), 2, "--seed is negative")
    assert_refused(proreus("train", "pods", "--algo", "ddqn", "--ray", "local"), 2, "ddqn", "one process")
    assert "--epsilon-points" in proreus("train", "pods", "--algo", "ddqn", "--help").out
    assert "--threads" not in proreus("train", "pods", "--algo", "ppo", "--help").out


def test_flags_by_their_former_names_are_the_same_flags(proreus: Proreus, tmp_path: Path) -> None:
    former = ("--longest-slope", "0.25", "--trace=0.5")
    assert proreus("train", "pods", *PPO, *former, "--out", "former").code == 0
    now = ("--max-gradient", "0.25", "--gae_lambda", "0.5")
    assert proreus("train", "pods", *PPO, *now, "--out", "now").code == 0
    settings = [json.loads((tmp_path / run / "settings.json").read_text()) for run in ("former", "now")]
    assert settings[0] == settings[1]
    assert (settings[0]["config"]["max_gradient"], settings[0]["config"]["gae_lambda"]) == (0.25, 0.5)
    assert weights(tmp_path / "former") == weights(tmp_path / "now")


def test_a_missing_extra_is_one_line(proreus: Proreus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for algorithm in ("es", "ddqn", "imitate"):
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
    files = openb_files(tmp_path, pods=CROWDED)
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


@pytest.mark.parametrize("algorithm", ["es", "ppo", "ddqn"])
def test_work_that_tells_no_policies_apart_is_not_trained_on(
    algorithm: str, proreus: Proreus, tmp_path: Path
) -> None:
    """Three pods that come one after the other find room wherever they are put."""
    files = [word.replace("pods.csv", "three.csv") for word in openb_files(tmp_path)]
    (tmp_path / "pods.csv").rename(tmp_path / "three.csv")  # files of one name are read once in a process
    few = ("--measure", "gpu_allocation_peak") if algorithm == "es" else ("--horizon", "3")
    ended = proreus("train", "pods", "--algo", algorithm, *files, *few, "--drop-failures", "True")
    assert_refused(ended, 1, "every candidate scores alike", "openb:three.csv")
    assert "the same pods for every seed" in ended.out and "--scenario openb/NAME" in ended.out
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_other_settings_of_a_resumed_run_are_refused(proreus: Proreus) -> None:
    assert proreus("train", "pods", *PPO, "--out", "run").code == 0
    assert_refused(proreus("train", "pods", "--resume", "run", "--seed", "5"), 2, "seed 5", "only steps")
    assert proreus("train", "pods", "--resume", "run", *PPO).code == 0  # the same again


def test_ppo_made_longer_is_the_unbroken_run_where_nothing_falls(proreus: Proreus, tmp_path: Path) -> None:
    level = (*PPO, "--learning-rate-end", "1e-3", "--evaluate-every", "2")
    assert proreus("train", "pods", *level, "--steps", "512", "--out", "run").code == 0
    assert proreus("train", "pods", "--resume", "run", "--steps", "1024").code == 0
    assert proreus("train", "pods", *level, "--steps", "1024", "--out", "unbroken").code == 0
    for which in ("best", "last"):
        assert weights(tmp_path / "run", which) == weights(tmp_path / "unbroken", which)
    state = "state.safetensors"
    assert (tmp_path / "run" / state).read_bytes() == (tmp_path / "unbroken" / state).read_bytes()
