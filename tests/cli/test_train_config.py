"""`proreus train --config FILE`: settings of a training from YAML or JSON, and of a run folder again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.worlds import WORLDS
from tests.cli.runner import Proreus, assert_refused

QMIX = """\
# alg and env of VMAgent's notes in one file
algo: qmix
scenario: recovering@2
limit: 400
validation-starts: 4
confirm-starts: 3
hidden: 8
steps: 64
lanes: 4
chunk: 8
n_step: 4
updates: 2
batch_size: 16
capacity: 200
evaluate-every: 1
epsilon_points: [0, 0.25, 0.9, 1]
epsilon_values: [0.9, 0.5, 0.2, 0.2]
out: run
"""


def settings(folder: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((folder / "settings.json").read_text())
    return document


def test_a_run_is_as_its_file_says_and_its_settings_make_it_again(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "qmix.yaml").write_text(QMIX)
    ended = proreus("train", "vms", "--config", "qmix.yaml")
    assert (ended.code, ended.err) == (0, "")
    kept = settings(tmp_path / "run")
    config = kept["config"]
    assert isinstance(config, dict)
    assert (kept["algorithm"], config["chunk"], config["limit"]) == ("qmix", 8, 400)
    assert config["epsilon_values"] == [0.9, 0.5, 0.2, 0.2]
    weights = (tmp_path / "run/last/weights.safetensors").read_bytes()
    for again, place in (("run", "again"), ("run/settings.json", "once-more")):
        assert proreus("train", "vms", "--config", again, "--out", place).code == 0
        assert settings(tmp_path / place) == kept
        assert (tmp_path / place / "last/weights.safetensors").read_bytes() == weights


def test_flags_override_the_file(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "qmix.json").write_text(
        json.dumps(
            {
                **{"algorithm": "qmix", "world": "vms", "scenarios": ["recovering@2"], "seed": 4},
                "config": {"steps": 9_999, "hidden": 8, "lanes": 4, "chunk": 8, "n_step": 4, "updates": 2},
            }
        )
    )
    more = ("--batch-size", "16", "--capacity", "200", "--limit", "400", "--validation-starts", "4")
    ended = proreus(
        *("train", "vms", "--config", "qmix.json", "--steps", "32", "--scenario", "recovering@3", *more),
        *("--confirm-starts", "3", "--out", "run"),
    )
    assert (ended.code, ended.err) == (0, "")
    kept = settings(tmp_path / "run")
    config = kept["config"]
    assert isinstance(config, dict)
    assert (config["steps"], config["chunk"], kept["seed"]) == (32, 8, 4)
    assert kept["scenarios"] == [{"name": "recovering@3"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("algo: qmix\nstps: 3\n", ("f.yaml:2: stps", "unknown setting 'stps'", "did you mean 'steps'")),
        ("algo: qmx\n", ("f.yaml:1: algo", "unknown algorithm 'qmx'", "'qmix'")),
        ("algo: qmix\nsteps: many\n", ("f.yaml:2: steps", "many")),
        ("algo: qmix\nsteps: 1.5\n", ("f.yaml:2: steps", "whole number")),
        ("algo: qmix\n\nsteps: 0\n", ("f.yaml:3: steps", "at least 1")),
        ("algo: qmix\nconfig:\n  chunk: 4\n", ("f.yaml", "n_step 32 is above the chunk of 4")),
        ("algo: qmix\nconfig:\n  hidden: [8]\n", ("f.yaml:3: config.hidden", "single value")),
        ("algo: qmix\nepsilon_values: 0.5\n", ("f.yaml:2: epsilon_values", "a list")),
        ("algo: qmix\nconfig: {seed: 1}\nseed: 2\n", ("config.seed", "beside it is 2")),
        ("algo: es\nweighs: nothing\n", ("f.yaml:2: weighs", "none of")),
        ("world: pods\n", ("f.yaml:1: world", "not of 'vms'")),
        ("scenario: recoverin\n", ("f.yaml:1: scenario", "recovering")),
        ("scenarios: [{name: nowhere}]\n", ("f.yaml:1: scenarios[0]", "nowhere")),
        ("split: test\n", ("f.yaml:1: split", "nothing about training")),
        ("former_lengths: [3]\n", ("f.yaml:1: former_lengths", "unknown setting")),
        ("algo: qmix\nsteps: 3\nsteps: 4\n", ("f.yaml:3", "twice")),
        ("algo: qmix\nn-step: 3\nn_step: 4\n", ("f.yaml:3: n_step", "twice")),
        ("- algo\n", ("f.yaml:1", "settings by name")),
        ("algo: [\n", ("f.yaml", "not valid YAML")),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    text: str, says: tuple[str, ...], proreus: Proreus, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(text)
    assert_refused(proreus("train", "vms", "--config", "f.yaml"), 2, *says)
    assert not (tmp_path / "runs").exists()


def test_a_resumed_run_takes_no_file(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("steps: 3\n")
    ended = proreus("train", "vms", "--config", "f.yaml", "--resume", "run")
    assert_refused(ended, 2, "--config f.yaml", "its own settings")
    assert_refused(proreus("train", "vms", "--config", "nowhere.yaml"), 2, "nowhere.yaml")


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_has_it(world: str, proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"generations": 1,\n "sigma": "wide"}')
    assert_refused(proreus("train", world, "--config", "f.json"), 2, "f.json:2: sigma", "wide")
