"""`train_ppo`: starts from the rule, saves, resumes bit for bit, and its checkpoint plays like any policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proreus.cluster.compile import compile_workload
from proreus.compare.scenario import Generated, Scenario
from proreus.compare.simulate import simulate
from proreus.learning.gradient_run import STATE
from proreus.learning.ppo import PPOConfig
from proreus.learning.ppo_run import PPORunConfig, Report, rule_parameters, train_ppo
from proreus.model.errors import InputError, UsageError
from proreus.policies.catalogue import make_policy
from proreus.policies.scorer import initial_parameters
from proreus.policies.scorer_policy import ScorerPolicy
from proreus.worlds.pods.world import PodsOptions

SCENARIO = Scenario(Generated("gpu", 6), PodsOptions(drop_failures=True))
CONFIG = PPOConfig(steps=6 * 8 * 16, rollout_steps=16, minibatches=2, epochs=2, seed=3)
AROUND = PPORunConfig(lanes=8, horizon=40, train_seeds=2, validation_seeds=1, evaluate_every=2)


def train(folder: Path, *, resume: bool = False, stop_after: int = 10**9) -> list[Report]:
    """The reports of a run, stopped after so many updates."""
    reports: list[Report] = []

    def stopped() -> bool:
        return len(reports) + 1 >= stop_after

    for report in train_ppo(folder, (SCENARIO,), (CONFIG, AROUND), resume=resume, stopped=stopped):
        reports.append(report)
    return reports


def test_a_resumed_run_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    first = train(tmp_path / "broken", stop_after=3)
    rest = train(tmp_path / "broken", resume=True)
    assert [r.progress.update for r in whole] == [1, 2, 3, 4, 5, 6]
    assert [r.progress.update for r in (*first, *rest)] == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "whole" / STATE).read_bytes() == (tmp_path / "broken" / STATE).read_bytes()
    last = [(tmp_path / run / "last/weights.safetensors").read_bytes() for run in ("whole", "broken")]
    assert last[0] == last[1]


def test_updates_after_the_saved_state_are_lived_again(tmp_path: Path) -> None:
    """Killed after update 5, when the state of update 4 was the last one saved."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "killed", stop_after=4)
    journal = tmp_path / "killed" / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"update": 5, "validation": null, "seconds": 1.0}\n{"upd')
    rest = train(tmp_path / "killed", resume=True)
    assert [r.progress.update for r in rest] == [5, 6]
    assert rest[-1].progress.entropy == whole[-1].progress.entropy


def test_a_damaged_state_is_reported(tmp_path: Path) -> None:
    train(tmp_path, stop_after=2)
    (tmp_path / STATE).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be resumed"):
        train(tmp_path, resume=True)


def test_scenarios_of_two_kinds_are_refused(tmp_path: Path) -> None:
    other = Scenario(Generated("small"), PodsOptions())
    with pytest.raises(UsageError, match="train on one kind"):
        list(train_ppo(tmp_path, (SCENARIO, other), (CONFIG, AROUND), resume=False, stopped=lambda: False))


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
    policy = make_policy(str(tmp_path / "best"))
    compiled = compile_workload(SCENARIO.source.load(7))
    seen = []
    outcome = simulate(compiled, policy, SCENARIO.options, inspect=lambda o: seen.append(policy.explain(o)))
    again = simulate(compiled, make_policy(str(tmp_path / "best")), SCENARIO.options)
    assert repr(outcome.log) == repr(again.log)  # NaN is not equal to itself
    assert len(seen) == outcome.measures["decisions"]
    assert all(bool(v.scores) != bool(v.refused_by) for v in seen[0].verdicts)
