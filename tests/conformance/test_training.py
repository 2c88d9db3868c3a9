"""Laws of every learner of every world: what it hands out is never worse than what it started from, it says
so, and a run that is done can be made longer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.main import main
from proreus.learning.run_folder import read_journal
from proreus.policies.checkpoint import CARD, read_card
from proreus.worlds import WORLDS, register, registered, world
from tests.cli.runner import Proreus, assert_refused
from tests.surface.run_folders import TRAININGS
from tests.toy import TOY

SMALL = {
    (words[1], words[3]): words for words in (training.words for training in TRAININGS) if words[0] == "train"
}
"""Trainings of a few updates, where those that a world is meant for are long."""
_FEW_MEMBERS = ("--generations", "4", "--population", "4", "--evaluate-every", "2", "--processes", "1")
_FEW_STEPS = ("--steps", "160", "--lanes", "4", "--rollout-steps", "8", "--evaluate-every", "1")
_FEW_RUNS = ("--runs", "1", "--validation-runs", "2", "--confirm-runs", "3")
_FEW_WINDOWS = ("--validation-runs", "1", "--confirm-runs", "2")
_FEW_FUNCTIONS = ("--scenarios", "busy@20", *_FEW_RUNS[2:])
_FEW_MOVES = (
    *("--scenarios", "windows/serial@2", "--horizon", "6", "--train-seeds", "1", "--validation-seeds", "1"),
    *("--hidden", "8", "--evaluate-every", "1"),
)
_FEW_TRANSITIONS = (
    *("--steps", "200", "--report-every", "40", "--warm-up", "20", "--batch-size", "16", "--capacity", "60"),
)
SMALL |= {
    (words[1], words[3]): words
    for words in (
        (
            *("train", "pods", "--algo", "imitate", "--scenarios", "gpu@5", "--teacher", "learned"),
            *("--steps", "300", "--round-steps", "60", "--train-seeds", "2", "--validation-seeds", "1"),
        ),
        ("train", "workflows", "--algo", "es", "--scenarios", "calm@2", *_FEW_MEMBERS, *_FEW_RUNS),
        ("train", "workflows", "--algo", "ppo", "--scenarios", "calm@2", *_FEW_STEPS, *_FEW_RUNS[2:]),
        ("train", "rebalance", "--algo", "ppo", *_FEW_MOVES, *_FEW_STEPS[:6]),
        (
            *("train", "rebalance", "--algo", "qmix", *_FEW_MOVES, "--steps", "160", "--lanes", "4"),
            *("--chunk", "8", "--n-step", "4", "--updates", "2", "--batch-size", "16", "--capacity", "200"),
        ),
        ("train", "rebalance", "--algo", "ddqn", *_FEW_MOVES, *_FEW_TRANSITIONS),
        ("train", "rebalance", "--algo", "dqn", *_FEW_MOVES, *_FEW_TRANSITIONS),
        ("train", "functions", "--algo", "es", *_FEW_FUNCTIONS, *_FEW_MEMBERS, "--runs", "1"),
        (
            *("train", "functions", "--algo", "ppo", *_FEW_FUNCTIONS, "--steps", "1280", "--lanes", "4"),
            *("--rollout-steps", "64", "--evaluate-every", "2"),
        ),
        (
            *("train", "inference", "--algo", "es", *_FEW_MEMBERS, "--windows", "1", "--rate", "25"),
            *("--window-seconds", "300", "--scenarios", "surge", *_FEW_WINDOWS),
        ),
        (
            *(
                "train",
                "inference",
                "--algo",
                "reserve",
                *_FEW_MEMBERS,
                *_FEW_WINDOWS,
                "--scenarios",
                "steady",
            ),
            *("--traces", "1", "--episodes", "1", "--drawn", "8", "--drawn-episodes", "4"),
            *("--forecast-series", "60"),
        ),
        (
            *("train", "inference", "--algo", "finetune", *_FEW_MEMBERS, *_FEW_WINDOWS),
            *("--scenarios", "steady", "--traces", "2", "--runs", "1"),
        ),
        (
            *("train", "inference", "--algo", "ppo", "--steps", "320", "--lanes", "4", "--rate", "4"),
            *("--rollout-steps", "16", "--hidden", "8", "--evaluate-every", "2", *_FEW_WINDOWS),
        ),
    )
}
_EVOLVES = ("es", "reserve", "finetune")
"""Learners whose length is a number of generations."""
CONFIRMED = {"pods": "--confirm-seeds", "vms": "--confirm-starts", "rebalance": "--confirm-seeds"}


@dataclass(frozen=True)
class Case:
    """A learner of a world."""

    world: str
    algorithm: str

    @property
    def length(self) -> str:
        """The flag that says how long it is."""
        return "--generations" if self.algorithm in _EVOLVES else "--steps"

    @property
    def words(self) -> list[str]:
        """A training of it; those of worlds that are small by themselves need no flags."""
        words = SMALL.get(
            (self.world, self.algorithm), ("train", self.world, "--algo", self.algorithm, *self._of_toys())
        )
        confirmed = (CONFIRMED[self.world], "3") if self.world in CONFIRMED else ()
        return [*words, *confirmed]

    def _of_toys(self) -> tuple[str, ...]:
        return (self.length, "4" if self.algorithm in _EVOLVES else "1024")

    def lasting(self, *, long: bool) -> tuple[list[str], int]:
        """(the words for its length or for two fifths of it, which end with a judgement; that length)."""
        words = self.words
        place = words.index(self.length) + 1
        whole = 4 if self.algorithm in _EVOLVES else int(words[place])
        short = 2 if self.algorithm in _EVOLVES else whole * 2 // 5
        length = whole if long else short
        return [*words[:place], str(length), *words[place + 1 :]], length

    def __str__(self) -> str:
        return f"{self.world}-{self.algorithm}"


register("toy", TOY)
CASES = [Case(name, algorithm) for name in registered() for algorithm in world(name).learners]
del WORLDS["toy"]
every_learner = pytest.mark.parametrize("case", CASES, ids=str)
pytestmark = pytest.mark.usefixtures("workers_here")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """The run of a learner, shorter than it could be; trained once."""
    known: dict[Case, Path] = {}

    def train(case: Case) -> Path:
        if case not in known:
            known[case] = tmp_path_factory.mktemp(str(case)) / "run"
            assert main([*case.lasting(long=False)[0], "--out", str(known[case])]) == 0
        return known[case]

    return train


@every_learner
def test_what_is_handed_out_is_never_worse_than_the_start(
    case: Case, trained: Callable[[Case], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(case)
    start, *lived = read_journal(run)
    assert start.keys() == lived[0].keys() and not start.get("fitness") and not start.get("steps") and lived
    judged = [entry["validation"] for entry in (start, *lived) if entry["validation"]]
    gains = [np.mean(list(validation.values())) for validation in judged]
    kept = np.mean(list(read_card(run / "best" / CARD).scores.values()))
    assert kept >= gains[0]
    document = json.loads((run / "improvement.json").read_text())
    assert kept == pytest.approx(gains[0] if document["best_is_start"] else max(gains))
    assert document["best_is_start"] == (document["better_than_start"] is None)
    if not document["best_is_start"]:
        better = document["better_than_start"]
        assert better["mean"] > 0 and better["low"] <= better["mean"] <= better["high"] and better["n"] > 1
    said = capsys.readouterr().out
    if said:  # trained for this test
        assert "start" in said.splitlines()[0] or "members a generation" in said.splitlines()[0]
        assert ("best is the start" in said) == document["best_is_start"]
        assert "nan" not in said


@every_learner
def test_what_is_written_down_are_numbers(case: Case, trained: Callable[[Case], Path]) -> None:
    refuse = partial(json.loads, parse_constant=_no_number)
    for line in (trained(case) / "journal.jsonl").read_text().splitlines():
        refuse(line)


@every_learner
def test_a_run_that_is_done_can_be_made_longer(
    case: Case, trained: Callable[[Case], Path], proreus: Proreus, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained(case), run)
    (_, short), (words, whole) = case.lasting(long=False), case.lasting(long=True)
    before = _files(run)
    again = proreus("train", case.world, "--resume", "run")
    assert again.code == 0 and "run is done" in again.out and case.length in again.out
    assert _files(run) == before
    assert_refused(
        proreus("train", case.world, "--resume", "run", case.length, str(short - 1)), 2, "name more"
    )
    longer = proreus("train", case.world, "--resume", "run", case.length, str(whole))
    assert longer.code == 0 and f"goes on to {whole:,} in place of {short:,}" in longer.out
    settings = json.loads((run / "settings.json").read_text())
    assert settings["config"][case.length[2:]] == whole and settings["former_lengths"] == [short]
    assert "run is done" in proreus("train", case.world, "--resume", "run").out
    assert proreus(*words, "--out", "unbroken").code == 0
    journal, unbroken = read_journal(run), read_journal(tmp_path / "unbroken")
    assert len(journal) == len(unbroken)
    if case.algorithm == "es":  # nothing in it depends on the length
        assert [_untimed(entry) for entry in journal] == [_untimed(entry) for entry in unbroken]
        for which in ("best", "last"):
            weights = f"{which}/weights.safetensors"
            assert (run / weights).read_bytes() == (tmp_path / "unbroken" / weights).read_bytes()


def _no_number(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


def _untimed(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "seconds"}


def _files(run: Path) -> dict[str, bytes]:
    kept = (path for path in run.rglob("*") if path.is_file() and path.parent.name != "tensorboard")
    return {str(path.relative_to(run)): path.read_bytes() for path in kept}
