"""The environment, and the wrapper that places whole workflows."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import proreus.envs  # noqa: F401  # registers the ids
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.workflows.env import WholeWorkflow, WorkflowsEnv


@pytest.mark.parametrize("scenario", ["busy@3", "static"])
def test_rewards_add_up_to_what_is_paid(scenario: str) -> None:
    env, dice = WorkflowsEnv(scenario), np.random.default_rng(0)
    env.reset(seed=3)
    total, over = 0.0, False
    info: dict[str, Any] = {}
    while not over:
        legal = np.flatnonzero(env.action_masks())
        seen, reward, over, truncated, info = env.step(int(dice.choice(legal)))
        assert env.observation_space.contains(seen) and not truncated
        total += reward
    measures = info["measures"]
    assert total == pytest.approx(-measures["slr" if scenario == "static" else "cost"])


def test_illegal_actions_raise_or_count_as_the_first_legal_one() -> None:
    strict, lenient = WorkflowsEnv("static", illegal="raise"), WorkflowsEnv("static")
    for env in (strict, lenient):
        env.reset(seed=1)
    wait = strict.action_masks().size - 1  # a plan waits for nothing
    with pytest.raises(IllegalDecision, match="masked"):
        strict.step(wait)
    assert lenient.step(wait)[4]["illegal"]


def test_settings_that_mean_nothing_are_refused() -> None:
    for settings, says in (
        ({"scenario": "bussy"}, "busy"),
        ({"illegal": "delay"}, "illegal"),
        ({"part": "all"}, "part"),
        ({"render_mode": "humans"}, "render_mode"),
    ):
        with pytest.raises(UsageError, match=says):
            WorkflowsEnv(**settings)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="reset"):
        WorkflowsEnv().step(0)


def test_it_is_drawn_as_text() -> None:
    env = gymnasium.make("proreus/Workflows-v0", scenario="busy@2", render_mode="ansi")
    env.reset(seed=0)
    env.step(0)
    drawn = env.render()
    assert isinstance(drawn, str) and "machine   0" in drawn and "rented" in drawn


@pytest.mark.parametrize("scenario", ["busy@3", "static"])
def test_a_whole_workflow_is_one_action(scenario: str) -> None:
    env = WholeWorkflow(gymnasium.make("proreus/Workflows-v0", scenario=scenario).unwrapped, most_tasks=400)
    with warnings.catch_warnings():
        # A wrapper is what is to be checked.
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
        check_env(env, skip_render_check=True)
    check_env_of_sb3(env)
    dice, steps, over, total = np.random.default_rng(0), 0, False, 0.0
    seen, info = env.reset(seed=5)
    while not over:
        mask = info["action_mask"].reshape(400, -1)
        tasks = int(mask.all(axis=1).sum())
        assert tasks == int(seen["tasks"].reshape(400, -1)[:, 0].sum()) and mask[tasks:, 1:].sum() == 0
        seen, reward, over, _, info = env.step(dice.integers(mask.shape[1], size=400))
        steps, total = steps + 1, total + reward
    assert steps == (1 if scenario == "static" else 3)
    measures = info["measures"]
    assert total == pytest.approx(-measures["slr" if scenario == "static" else "cost"])


def test_a_whole_workflow_wraps_workflows_alone() -> None:
    with pytest.raises(UsageError, match="Workflows-v0"):
        WholeWorkflow(gymnasium.make("CartPole-v1"))
    with pytest.raises(UsageError, match="most_tasks"):
        WholeWorkflow(WorkflowsEnv(), most_tasks=0)
