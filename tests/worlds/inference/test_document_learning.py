"""The agent of the document: it begins at a rule, learns beyond it, can be kept and taken up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.learning.ppo import PPOConfig
from proreus.model.errors import InputError, UsageError
from proreus.worlds.inference.datasets.generator import Load
from proreus.worlds.inference.document.agent import PPOAgent
from proreus.worlds.inference.document.baselines import RandomAgent, RuleAgent
from proreus.worlds.inference.document.simulator import TraceRLSimulator
from proreus.worlds.inference.document.training import LoopLessons, evaluate, simulator_of, train
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.controller import Controller
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario
from tests.worlds.inference.clusters import requests
from tests.worlds.inference.sights import brief
from tests.worlds.inference.test_document import served

PPO = PPOConfig(steps=2_000, hidden=8, minibatches=2, seed=3)


def rule(name: str) -> RuleAgent:
    controller = POLICIES.make(name)
    assert isinstance(controller, Controller)
    return RuleAgent(controller)


def passed(agent: PPOAgent, count: int, seed: int = 2) -> list[float]:
    """Rewards of passes over the same requests; the agent learns."""
    rewards = []
    for _ in range(count):
        application, _ = served(requests(seed, 150, rate=4.0))
        simulator = TraceRLSimulator(
            application.cluster.trace, application.cluster, {0: application}, end_time=60.0, agent=agent
        )
        simulator.run()
        rewards += [reward.total for reward in simulator.rewards]
    return rewards


def test_before_it_has_learned_the_agent_is_its_arbiter() -> None:
    scenario = brief("surge", 200.0, 30.0)
    for seed in range(2):
        agent = PPOAgent({"seed": seed})
        assert evaluate(scenario, agent, [seed]) == evaluate(scenario, rule("chiron"), [seed])


def test_an_agent_that_was_saved_goes_on_bit_for_bit(tmp_path: Path) -> None:
    agent = PPOAgent({"seed": 3, "action_scale_step": 4}, PPO, passes=2)
    passed(agent, 3)  # an update, and a pass that is not learned from yet
    agent.save(tmp_path / "agent.safetensors")
    again = PPOAgent.load(tmp_path / "agent.safetensors")
    assert again.config == agent.config and again.passes == 2
    assert passed(again, 3) == passed(agent, 3)
    assert agent.figures == again.figures and agent.figures["entropy"] > 0
    for name, weights in agent.weights.items():
        np.testing.assert_array_equal(weights, again.weights[name])


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent").write_bytes(b"nothing")
    for place in ("agent", "missing"):
        with pytest.raises(InputError, match="not an agent"):
            PPOAgent.load(tmp_path / place)
    application, _ = served()
    simulator = TraceRLSimulator(
        application.cluster.trace,
        application.cluster,
        {0: application},
        end_time=60.0,
        rl_config={"stack_size": 2},
        agent=PPOAgent(),
    )
    with pytest.raises(UsageError, match="stack_size: the agent has learned with 4, not 2"):
        simulator.run()


def test_evaluation_learns_nothing() -> None:
    agent = PPOAgent({"seed": 1}, PPO, passes=1)
    before = agent.weights
    first, second = (evaluate(brief("steady", 100.0), agent, [5]) for _ in range(2))
    assert first == second
    for name, weights in agent.weights.items():
        np.testing.assert_array_equal(weights, before[name])


def test_an_update_takes_several_passes() -> None:
    agent = PPOAgent({"seed": 1}, PPO, passes=3)
    passed(agent, 2)
    assert not agent.figures
    passed(agent, 1)
    assert agent.figures["kl"] >= 0.0


def test_what_the_arbiter_earns_is_taken_off_what_is_learned_from() -> None:
    """Whoever shifts nothing earns nothing beyond it, whatever the load does."""
    agent = PPOAgent({"seed": 1}, PPO, passes=1)
    agent.weights = {
        name: weights * (40.0 if name == "logit.weight" else 1.0) for name, weights in agent.weights.items()
    }
    passed(agent, 1)
    assert agent.figures["return"] == 0.0


def growing(times: float) -> InferenceScenario:
    """Load that grows until three and three instances are far too few."""
    load = Load(rate=8.0 * times, seconds=600.0, daily=0.9, day_seconds=1_200.0, unrest=0.0)
    return replace(PRESETS["steady"], load_=load)


@pytest.mark.parametrize("times", [4.0, 6.0])
def test_doing_nothing_does_not_win_while_load_grows(times: float) -> None:
    scenario = growing(times)
    nothing, in_time = (evaluate(scenario, rule(name), [0]) for name in ("static", "oracle"))
    assert nothing < in_time - 0.1
    assert evaluate(scenario, RandomAgent(0), [0]) < in_time


def test_requests_that_wait_too_long_count_before_they_end() -> None:
    """A queue that nobody leaves is no calm."""
    simulator = simulator_of(growing(20.0), 0, rule("static"))
    simulator.run(learn=False)
    assert simulator.rewards[-1].slo < -0.3


def test_training_hands_out_nothing_worse_than_its_start() -> None:
    scenario = brief("steady", 100.0)
    lessons = LoopLessons(passes=4, traces=2, judge_every=2, validation_runs=1, confirm_runs=2)
    wild = PPOConfig(steps=400, hidden=8, minibatches=1, learning_rate=0.5, target_kl=0.0, seed=1)
    lines: list[str] = []
    trained = train(scenario, PPOAgent({"seed": 1}, wild, passes=1), lessons, lines.append)
    assert len(trained.curve) == 3 and len(lines) == 3
    confirmed = evaluate(scenario.of_part("valid"), trained.agent, range(1, 3)).mean()
    assert confirmed >= evaluate(scenario.of_part("valid"), rule("chiron"), range(1, 3)).mean()
    assert (trained.improvement.better is None) == (
        trained.agent.weights["logit.weight"][0, 0] == pytest.approx(3.0)
    )


def test_the_seed_decides() -> None:
    found = [passed(PPOAgent({"seed": 3}, PPO, passes=1), 3) for _ in range(2)]
    assert found[0] == found[1]


def test_an_agent_that_draws_plays_as_it_learns_and_is_saved_so(tmp_path: Path) -> None:
    scenario = brief("surge", 200.0, 30.0)
    agent = PPOAgent({"seed": 2})
    calm = evaluate(scenario, agent, [0])
    agent.draws = True
    first, second = (evaluate(scenario, agent, [0]) for _ in range(2))
    assert first == second != calm, "it shifts offsets, with the same dice every time"
    agent.save(tmp_path / "agent.safetensors")
    again = PPOAgent.load(tmp_path / "agent.safetensors")
    assert again.draws and evaluate(scenario, again, [0]) == first


def test_training_tells_of_both_ways_to_play_and_hands_one_out() -> None:
    scenario = brief("surge", 200.0, 30.0)
    lessons = LoopLessons(passes=2, traces=1, judge_every=2, validation_runs=1, confirm_runs=1)
    lines: list[str] = []
    trained = train(scenario, PPOAgent({"seed": 1}, PPO, passes=1), lessons, lines.append)
    words = lines[1].replace(",", "").split()
    likeliest, drawn = float(words[2]), float(words[4])
    assert trained.curve[1] == pytest.approx(max(likeliest, drawn), abs=1e-4)
    assert trained.agent.draws is (trained.improvement.better is not None and drawn > likeliest)
