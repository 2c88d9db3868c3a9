"""The run folder: what it keeps can be read by others, and what it never kept leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.learning.ppo import PPOConfig
from proreus.learning.run_folder import RunFolder, RunIdentity, read_journal, read_settings, scenarios_of
from proreus.learning.settings import config_from
from proreus.learning.tensorboard import ScalarWriter
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Checkpoint
from proreus.worlds.pods.scenarios import Generated, PodScenario, scenario_from_json
from proreus.worlds.pods.simulation.world import PodsOptions

SCENARIOS = (
    PodScenario(Generated("gpu", 7), PodsOptions(drop_failures=True)),
    PodScenario(Generated("small")),
)
IDENTITY = RunIdentity(
    world="pods",
    algorithm="es",
    kind="linear",
    encoding="pairs-1",
    scenarios=SCENARIOS,
    config={"sigma": 0.3, "points": (0.0, 1.0)},
    seed=4,
    gain="gain over a rule",
    length="generations",
)


def folder(path: Path, *, resume: bool = False, identity: RunIdentity = IDENTITY) -> RunFolder:
    """A run's folder."""
    return RunFolder(path, identity, resume=resume)


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = ScalarWriter(tmp_path)
    board.add({"return": 1.5, "entropy": 0.25}, 1)
    board.add({"return": 2.5}, 3)
    # Without closing: a killed run can be looked at.
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert sorted(events.Tags()["scalars"]) == ["entropy", "return"]
    assert [(event.step, event.value) for event in events.Scalars("return")] == [(1, 1.5), (3, 2.5)]
    board.close()


def test_a_run_says_what_it_was_asked_for(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    run.record({"generation": 0, "validation": None, "seconds": 1.0}, {}, 0)
    run.close()
    settings = read_settings(tmp_path / "run")
    assert scenarios_of(settings, tmp_path / "run", scenario_from_json) == SCENARIOS
    again = folder(tmp_path / "run", resume=True)
    assert again.past == [{"generation": 0, "validation": None, "seconds": 1.0}]
    again.close()


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, config={"sigma": 0.4, "points": (0.0, 1.0)}),
        replace(IDENTITY, scenarios=SCENARIOS[:1]),
        replace(IDENTITY, algorithm="ppo"),
        # Its pods wait and are not dropped.
        replace(IDENTITY, scenarios=(PodScenario(Generated("gpu", 7)), SCENARIOS[1])),
    ],
)
def test_another_run_cannot_be_resumed_in_its_place(other: RunIdentity, tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    run.record({"generation": 0}, {}, 0)
    run.close()
    with pytest.raises(UsageError, match="asks for something else"):
        folder(tmp_path / "run", resume=True, identity=other)


def test_settings_by_their_former_names_are_the_same_settings(tmp_path: Path) -> None:
    """Runs made before a setting was renamed go on."""
    before = replace(IDENTITY, config={"largest_gradient": 10.0, "trace": 0.95})
    run = folder(tmp_path / "run", identity=before)
    run.record({"generation": 0}, {}, 0)
    run.close()
    now = replace(IDENTITY, config={"max_gradient": 10.0, "gae_lambda": 0.95})
    folder(tmp_path / "run", resume=True, identity=now).close()
    stored = read_settings(tmp_path / "run")["config"]
    assert config_from(stored, PPOConfig(max_gradient=1.0)) == PPOConfig(max_gradient=10.0)


def test_a_run_that_saved_nothing_leaves_nothing(tmp_path: Path) -> None:
    folder(tmp_path / "run").close()
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    folder(tmp_path / "run").close()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_checkpoint_alone_is_worth_keeping(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    run.save("last", Checkpoint(IDENTITY.card({}, 1, 2.0), {"weights": np.zeros(3)}))
    run.close()
    assert (tmp_path / "run/last/card.json").exists() and (tmp_path / "run/settings.json").exists()


def test_a_journal_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("nonsense\n{")
    with pytest.raises(InputError, match="not a journal"):
        read_journal(tmp_path)
    assert read_journal(tmp_path / "elsewhere") == []
