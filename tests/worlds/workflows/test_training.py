"""What learns in the world of workflows: where it starts, that it plays what it learned, that it resumes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import proreus
from proreus.learning.run_folder import read_journal
from proreus.policies.networks.bidder import bidder_of, make_bids
from proreus.policies.networks.row_networks import ActorCritic
from proreus.policies.networks.tensor_layout import size_of, tensors_of
from proreus.worlds.workflows.encoding.rows import (
    CONTEXT,
    FEATURES,
    LARGEST_FEATURE,
    SIZES,
    encode,
    rows_for,
)
from proreus.worlds.workflows.policies.catalogue import rule_policy
from proreus.worlds.workflows.scenarios import WorkflowsScenario, parse_scenario
from proreus.worlds.workflows.training.goal import WorkflowsESConfig, WorkflowsGoal, network_policy, paid
from proreus.worlds.workflows.training.lanes import encoded, lanes_of
from proreus.worlds.workflows.training.weight_vector import parts_of


def scenario(name: str) -> WorkflowsScenario:
    return parse_scenario(name, None)


@pytest.mark.parametrize("hidden", [1, 4])
def test_the_search_starts_from_heft_where_the_makespan_is_the_aim(hidden: int) -> None:
    parts = parts_of(hidden)
    policy = network_policy(tensors_of(parts, np.zeros(size_of(parts))))
    for seed in range(8):
        load = scenario("static").load(seed)
        assert paid(load, policy) == pytest.approx(paid(load, rule_policy("heft")), rel=1e-3)


def test_no_step_of_the_search_changes_what_is_planned() -> None:
    parts = parts_of(3)
    draw = np.random.default_rng(0)
    load = scenario("static").load(1)
    costs = {
        paid(load, network_policy(tensors_of(parts, 3.0 * draw.normal(size=size_of(parts)))))
        for _ in range(4)
    }
    assert len(costs) == 1


def test_the_goal_rates_all_members_on_the_same_runs() -> None:
    with ThreadPoolExecutor(2) as pool:
        goal = WorkflowsGoal(
            [scenario("busy@3")], WorkflowsESConfig(hidden=2, runs=2, validation_runs=2), pool
        )
        drawn = goal.draw(np.random.default_rng(0))
        late = goal.start.copy()
        late[FEATURES.index("dollars of rent")] = 60.0  # would rather pay
        fitness, counted = goal.fitness([goal.start, late, goal.start], drawn)
        assert fitness[0] == fitness[2] > fitness[1] and counted == {"runs": 6}
        assert set(goal.validate(goal.start)) == {"busy@3"}


@pytest.mark.parametrize("name", ["busy@2", "static"])
def test_the_kernel_bids_as_torch_does(name: str) -> None:
    torch.manual_seed(3)
    network = ActorCritic(8, *SIZES)
    torch.nn.init.normal_(network.logit.weight)
    tensors = {key: value.numpy() for key, value in network.state_dict().items()}
    bidder, run = bidder_of("actor", tensors, SIZES), scenario(name).start(scenario(name).load(0), 0)
    for _ in range(12):
        seen = run.next_decision()
        assert seen is not None
        rows, context = encoded(seen)
        fits = seen.action_mask().astype(np.uint8)
        bids = np.zeros(len(rows), dtype=np.float32)
        make_bids(bidder, rows, context, fits, bids)
        with torch.inference_mode():
            logits, _ = network(
                torch.from_numpy(rows)[None],
                torch.from_numpy(context)[None],
                torch.from_numpy(fits > 0)[None],
            )
        legal = fits > 0
        expected = logits[0].numpy()[legal]
        np.testing.assert_allclose(bids[legal] - bids[legal][0], expected - expected[0], rtol=1e-4, atol=1e-4)
        run.apply(int(np.flatnonzero(legal)[0]))


def test_rows_are_bounded_and_say_what_is_legal() -> None:
    for name in ("rush@4", "static"):
        run, dice = scenario(name).start(scenario(name).load(3), 3), np.random.default_rng(1)
        while (seen := run.next_decision()) is not None:
            count = rows_for(seen.machines)
            rows, context = np.zeros((count, SIZES[0]), np.float32), np.zeros(SIZES[1], np.float32)
            fits = np.zeros(count, np.uint8)
            encode(seen.work, seen.state, rows, context, fits)
            assert count == seen.machines + 1
            assert (len(FEATURES), len(CONTEXT)) == SIZES
            assert (
                np.isfinite(rows).all()
                and np.abs(rows).max() <= LARGEST_FEATURE
                and np.isfinite(context).all()
            )
            np.testing.assert_array_equal(fits > 0, seen.action_mask())
            run.apply(int(dice.choice(np.flatnonzero(seen.action_mask()))))


def test_lanes_are_runs_of_the_world() -> None:
    lanes = lanes_of(scenario("busy@1"), 2)
    choices, total, ended = lanes.reset(1), np.zeros(2), np.zeros(2, dtype=np.bool_)
    while not ended.any():
        steps = lanes.step(choices.legal.argmax(axis=1))
        choices, ended, total = steps.choices, steps.ended, total + steps.rewards
    assert (total < 0).any()


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("es", {"generations": 2, "population": 4, "validation_runs": 1}),
        ("ppo", {"steps": 64, "lanes": 2, "rollout_steps": 16, "validation_runs": 1, "hidden": 8}),
    ],
)
@pytest.mark.usefixtures("workers_here")
def test_python_trains_and_plays_what_was_learned(
    algo: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    trained = proreus.train("workflows", "busy@2", algo=algo, out=tmp_path / "run", **settings)
    assert read_journal(tmp_path / "run")
    played = proreus.simulate("workflows", "busy@2", proreus.load_policy(trained.best))
    assert np.isfinite(played.measures["cost"])
