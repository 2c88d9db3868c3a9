"""What learns: windows that are the same for all members; GPU-hours and promises are both paid for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.learning.run import Task, learn
from proreus.model.errors import UsageError
from proreus.policies.networks.bidder import bidder_of
from proreus.workers.processes import Workers
from proreus.worlds.inference.encoding.residual import KEEPS, SIZES
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.knobs import BIAS, KNOBS, USE, first_knobs, knobs_of
from proreus.worlds.inference.policies.steered_rule import Residual, first_rule
from proreus.worlds.inference.training.goal import InferenceESConfig, InferenceGoal
from proreus.worlds.inference.training.lanes import lanes_of, steered_lanes_of
from proreus.worlds.inference.training.torch_learners import PPO
from proreus.worlds.inference.training.weight_vector import SIZE, tensors_of
from proreus.worlds.inference.training.windows import WindowCost, knobs_spend, windows_of
from tests.worlds.inference.sights import brief


def test_missed_promises_cost_as_many_gpu_hours_again() -> None:
    spent = WindowCost(gpu_hours=10.0, kept=940.0, arrived=1000.0) + WindowCost()
    assert spent.weighed(0.99, 0.05) == pytest.approx(20.0)
    assert spent.weighed(0.9, 0.05) == 10.0


def test_windows_are_drawn_by_their_seed_from_all_of_a_day() -> None:
    day = replace(brief("day"), load_=replace(brief("day").load_, seconds=86_400.0))
    windows, again, other = (windows_of(day, seed, 20, 3_600.0) for seed in (1, 1, 2))
    assert windows == again != other
    begins = [window.scenario.load_.begins for window in windows]
    assert min(begins) >= 0.0 and max(begins) <= 86_400.0 - 3_600.0 and np.ptp(begins) > 40_000.0
    assert {window.scenario.load_.seconds for window in windows} == {3_600.0}
    assert len({window.seed for window in windows}) == 20


def test_a_window_begins_with_instances_enough_for_its_first_load() -> None:
    (window,) = windows_of(brief("steady", 60.0, 40.0), 0, 1, 60.0)
    spent = knobs_spend(window, knobs_of(first_knobs()))
    assert spent.attained > 0.95, "a minute is too short to start any"


def test_the_goal_rates_all_members_on_the_same_windows() -> None:
    config = InferenceESConfig(windows=1, window_seconds=120.0, validation_runs=1, confirm_runs=2)
    with ThreadPoolExecutor(1) as pool:
        goal = InferenceGoal([brief("steady", 120.0, 20.0)], config, pool)
        drawn = goal.draw(np.random.default_rng(0))
        lavish = goal.start.copy()
        lavish[KNOBS.index(USE)] = -20.0
        fitness, counted = goal.fitness([goal.start, lavish, goal.start], drawn)
        assert fitness[0] == fitness[2] > fitness[1] and counted == {"windows": 3}
        assert set(goal.validate(goal.start)) == {"steady"}
        assert goal.confirm(goal.tensors(goal.start))["steady"].shape == (2,)


def test_a_vector_moves_only_what_it_is_meant_to() -> None:
    moved = tensors_of(np.ones(SIZE))
    assert (moved[BIAS] != first_knobs()[BIAS]).all()
    assert tensors_of(np.zeros(SIZE))[BIAS].tolist() == first_knobs()[BIAS].tolist()


@pytest.mark.parametrize("wrong", [{"windows": 0}, {"window_seconds": 0.0}, {"margin": -1.0}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        InferenceESConfig(**wrong)  # type: ignore[arg-type]


def test_lanes_go_on_from_what_was_captured() -> None:
    lanes = lanes_of(brief("steady", 60.0, 2.0), 2)
    choices = lanes.reset(3)
    for _ in range(8):  # beyond the end of the first episodes
        choices = lanes.step(choices.legal.argmax(axis=1)).choices
    other = lanes_of(brief("steady", 60.0, 2.0), 2)
    for one, two in zip(other.restore(lanes.capture()), choices, strict=True):
        np.testing.assert_array_equal(one, two)


def test_steered_lanes_go_on_from_what_was_captured() -> None:
    lanes = steered_lanes_of(brief("steady", 60.0, 2.0), 2)
    choices = lanes.reset(3)
    for _ in range(8):  # beyond the end of the first episodes
        choices = lanes.step(choices.legal.argmax(axis=1)).choices
    other = steered_lanes_of(brief("steady", 60.0, 2.0), 2)
    for one, two in zip(other.restore(lanes.capture()), choices, strict=True):
        np.testing.assert_array_equal(one, two)


def test_whoever_shifts_nothing_earns_nothing() -> None:
    lanes = steered_lanes_of(brief("surge", 200.0, 30.0), 2)
    keeps = np.flatnonzero(lanes.reset(0).rows[0, :, KEEPS])
    for _ in range(25):
        steps = lanes.step(np.repeat(keeps, 2))
        assert not steps.rewards.any()
    shifted = [lanes.step(np.repeat(more, 2)).rewards for more in (8, 8, *[keeps[0]] * 12)]
    assert np.any(shifted), "one instance more, or fewer, is felt"


def test_ppo_begins_at_its_rule() -> None:
    configs = (replace(PPO.configs[0], hidden=8), *PPO.configs[1:])
    scenario = brief("surge", 200.0, 30.0)
    policy = Residual("start", first_rule(), bidder_of("actor", PPO.start([scenario], configs), SIZES))
    work = scenario.load(0)
    ours, rules = (play(scenario, work, one, 0) for one in (policy, first_rule()))
    assert {**ours.measures, "decisions_per_s": 0.0} == {**rules.measures, "decisions_per_s": 0.0}


def test_ppo_trains_from_there(tmp_path: Path) -> None:
    """Nothing worse than the start is handed out, whatever is learned."""
    scenario = brief("steady", 100.0)
    config, lessons = PPO.configs
    quick = replace(config, steps=40, rollout_steps=10, hidden=8, learning_rate=0.5, target_kl=0.0)
    few = replace(lessons, lanes=2, validation_runs=1, confirm_runs=1, evaluate_every=1)
    task = Task([scenario], (quick, few), Workers(1), tmp_path / "run", resume=False)
    lines = [status.line for status in learn(PPO, task, lambda: False, lambda summary: None)]
    assert any(line.startswith("start; held out: steady") for line in lines)
    best = POLICIES.make(str(tmp_path / "run" / "best"))
    valid = scenario.of_part("valid")
    ours, rules = (
        play(valid, valid.load(1), one, 1).measures["weighed_gpu_hours"] for one in (best, first_rule())
    )
    assert ours <= rules + 1e-9
