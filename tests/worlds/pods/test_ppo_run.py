"""PPO of pods: starts from the rule, saves, resumes bit for bit, and its checkpoint plays like any policy."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.learning.gradient_run import STATE, GradientRun, UpdateReport
from proreus.learning.run import Task, descend
from proreus.learning.run_folder import read_journal
from proreus.model.errors import InputError, UsageError
from proreus.policies.protocol import Explains
from proreus.workers.processes import Workers
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.scorer import initial_parameters
from proreus.worlds.pods.policies.scorer_policy import ScorerPolicy
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.training.evaluation import training_workloads
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig
from proreus.worlds.pods.training.learners import PPO, PPOLessons, rule_parameters

SCENARIO = PodScenario(Generated("gpu", 6), PodsOptions(drop_failures=True))
CONFIG = FusedPPOConfig(steps=6 * 8 * 16, rollout_steps=16, minibatches=2, epochs=2, seed=3)
TWO = Workers(2)
LESSONS = PPOLessons(lanes=8, horizon=40, train_seeds=2, validation_seeds=1, evaluate_every=2)


def train(
    folder: Path, *, resume: bool = False, stop_after: int = 10**9, workers: Workers = TWO
) -> list[UpdateReport]:
    """The reports of a run, stopped after so many updates."""
    reports: list[UpdateReport] = []

    def stopped() -> bool:
        return len(reports) + 1 >= stop_after

    task = Task((SCENARIO,), (CONFIG, LESSONS), workers, folder, resume)
    run = GradientRun(folder, PPO.identity(task.scenarios, task.configs), resume=resume)
    with closing(run):
        for report in descend(PPO, task, run, stopped):
            reports.append(report)
    return reports


def journal_entries(folder: Path) -> list[dict[str, Any]]:
    """A run's journal without what depends on the clock."""
    return [
        {name: value for name, value in entry.items() if name not in ("seconds", "steps_per_second")}
        for entry in read_journal(folder)
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert [report.update.number for report in train(folder)] == [1, 2, 3, 4, 5, 6]
    return folder


def assert_same(path: Path, other: Path) -> None:
    """Two runs have come to the same: the learner, what was judged and what was kept, bit for bit."""
    assert str(journal_entries(path)) == str(journal_entries(other))  # NaN is not equal to itself
    for file in (STATE, "last/weights.safetensors", "best/weights.safetensors"):
        assert (path / file).read_bytes() == (other / file).read_bytes(), file


def test_a_resumed_run_ends_like_an_unbroken_one(whole: Path, tmp_path: Path) -> None:
    """Interrupted where no judgement was due, and taken up with another number of threads."""
    broken = tmp_path / "broken"
    first = train(broken, stop_after=3, workers=Workers(1))
    assert [report.validation is not None for report in first] == [False, True, False]
    assert make_policy(str(broken / "last")).name  # what was learned so far can be played
    rest = train(broken, resume=True)
    assert [report.update.number for report in rest] == [4, 5, 6]
    assert_same(whole, broken)


def test_a_run_interrupted_often_is_the_unbroken_one(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "broken", stop_after=1)
    for _ in range(5):
        train(tmp_path / "broken", resume=True, stop_after=1)
    assert_same(whole, tmp_path / "broken")


def test_updates_after_the_saved_state_are_lived_again(whole: Path, tmp_path: Path) -> None:
    """Killed after update 5, when the state of update 4 was the last one saved."""
    killed = tmp_path / "killed"
    train(killed, stop_after=4)
    journal = killed / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"update": 5, "validation": null, "seconds": 1.0}\n{"upd')
    rest = train(killed, resume=True)
    assert [report.update.number for report in rest] == [5, 6]
    assert_same(whole, killed)


def test_a_finished_run_has_nothing_left_to_do(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    assert train(copy, resume=True) == []
    assert_same(whole, copy)


def test_a_damaged_state_is_reported(tmp_path: Path) -> None:
    train(tmp_path, stop_after=2)
    (tmp_path / STATE).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be resumed"):
        train(tmp_path, resume=True)


def test_scenarios_of_two_kinds_are_refused() -> None:
    other = PodScenario(Generated("small"), PodsOptions())
    with pytest.raises(UsageError, match="train on one kind"):
        training_workloads((SCENARIO, other), LESSONS)


def test_the_start_follows_the_rule() -> None:
    """Before any training the network's bids rank nodes as FGD does, up to near ties."""
    params = rule_parameters(initial_parameters(0), gpus=True)
    gains = []
    for seed in range(4):
        compiled = compile_workload(Generated("gpu", 30).load(seed))
        ours = simulate(compiled, ScorerPolicy("start", params), SCENARIO.options)
        rule = simulate(compiled, make_policy("fgd"), SCENARIO.options)
        gains.append(ours.measures["gpu_allocation_peak"] - rule.measures["gpu_allocation_peak"])
    assert abs(np.mean(gains)) < 1.5


def test_a_checkpoint_plays_and_explains_like_any_policy(tmp_path: Path) -> None:
    train(tmp_path, stop_after=2)
    policy = make_policy(str(tmp_path))  # the run stands for its best checkpoint
    assert isinstance(policy, Explains)
    compiled = compile_workload(SCENARIO.source.load(7))
    seen = []
    outcome = simulate(compiled, policy, SCENARIO.options, inspect=lambda o: seen.append(policy.explain(o)))
    again = simulate(compiled, make_policy(str(tmp_path / "best")), SCENARIO.options)
    assert repr(outcome.log) == repr(again.log)  # NaN is not equal to itself
    assert len(seen) == outcome.measures["decisions"]
    assert all(bool(v.scores) != bool(v.refused_by) for v in seen[0].verdicts)
