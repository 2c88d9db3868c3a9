"""A world of one's own is trained by the package's learners, from the command line and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proreus
from proreus.cli.main import main
from proreus.learning.run_folder import read_journal
from proreus.model.errors import UsageError


@pytest.mark.parametrize(
    ("algo", "settings"),
    [("es", ["--generations", "3"]), ("ppo", ["--steps", "1024"])],
)
def test_the_command_line_trains_resumes_and_plays(algo: str, settings: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["train", "toy", "--algo", algo, *settings, "--out", str(run)]) == 0
    journal = read_journal(run)
    assert journal[-1]["validation"] and (run / "best" / "card.json").is_file()
    assert main(["train", "toy", "--resume", str(run)]) == 0  # nothing is left to do
    assert [entry["validation"] for entry in read_journal(run)] == [entry["validation"] for entry in journal]
    compared = ("--policies", f"shortest,{run}", "--seeds", "2", "--processes", "1")
    assert main(["compare", "toy", *compared]) == 0


def test_python_trains_what_the_command_line_trains(tmp_path: Path) -> None:
    trained = proreus.train("toy", "calm", algo="ppo", out=tmp_path / "here", steps=768, seed=3)
    words = ["--algo", "ppo", "--scenario", "calm", "--steps", "768", "--seed", "3"]
    assert main(["train", "toy", *words, "--out", str(tmp_path / "there")]) == 0
    there = read_journal(tmp_path / "there")
    assert [row["return"] for row in trained.rows] == [row["return"] for row in there]
    assert trained.summary["steps"] == 768 and "run" in repr(trained)
    assert len(trained.plot().axes) == 2
    policy = proreus.load_policy(trained.best)
    played = proreus.simulate("toy", "calm", policy)
    assert np.isfinite(played.measures["time_in_system"])


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown setting 'step'"):
        proreus.train("toy", algo="ppo", out=tmp_path, step=3)
    with pytest.raises(UsageError, match="unknown algorithm 'qmix'"):
        proreus.train("toy", algo="qmix", out=tmp_path)
