"""The document's classes: its sketches of tests made real, and what its implementation got wrong."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.model.errors import UsageError
from proreus.worlds.inference.document import (
    Application,
    RLActionExecutor,
    RLConfig,
    RLRewardCalculator,
    RLStateCollector,
    TraceRLSimulator,
)
from proreus.worlds.inference.document.agent import PPOAgent
from proreus.worlds.inference.document.state import FEATURES, IntervalSeen
from proreus.worlds.inference.model.requests import RequestTrace, trace_of
from proreus.worlds.inference.model.start_up import Limits, starting_within
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.options import ControlOptions
from tests.worlds.inference.clusters import TIMINGS, kind_of, requests, spec_of

STEP = 10.0


def served(
    trace: RequestTrace | None = None, most: int = 12, sizes: tuple[int, int] = (3, 3)
) -> tuple[Application, list[str]]:
    """Three prompt and three token instances; what is said about them."""
    lines: list[str] = []
    spec = spec_of(kind_of("chunked", "layers", 2_000), "mixed_pool", sizes)
    cluster = InferenceCluster(spec, trace or requests(1, 300, rate=5.0), TIMINGS, 0, most)
    options = ControlOptions(start=starting_within(STEP), limits=Limits(most_in_total=most))
    return Application(cluster, TIMINGS, options, lines.append), lines


def test_rl_action_executor_scale_up() -> None:
    application, lines = served()
    executor = RLActionExecutor(application, {"action_scale_step": 5, "max_total_instances": 12})
    scheduler, initial_count = application.scheduler, len(application.scheduler.prompt_instances)
    done = executor.execute([0.4, 0.0, 0.0])
    assert done.prompt == 2 and len(scheduler.prompt_instances) == initial_count + 2
    assert len(application.active("prompt")) == initial_count, "they have to start first"
    assert lines[1] == "[Action] Added prompt instance 6 on server 6"
    assert application.scaling_manager.get_status_summary() == {
        "active_instances": 6,
        "scaling_up_instances": 2,
        "draining_instances": 0,
        "total_servers": 8,
        "total_instances": 8,
    }
    application.cluster.advance(STEP + 1.0)
    assert len(application.active("prompt")) == initial_count + 2


def test_all_three_parts_of_an_action_are_applied() -> None:
    application, lines = served()
    executor = RLActionExecutor(application, RLConfig(max_total_instances=12))
    done = executor.execute([0.2, -0.2, 1 / 3])
    assert (done.prompt, done.token, done.migrated) == (1, -1, 1)
    assert [len(application.active(tag)) for tag in ("prompt", "token")] == [2, 3]
    assert [line for line in lines if line.startswith("[Action]")] == [
        "[Action] Added prompt instance 6 on server 6",
        "[Action] Removed token instance 3",
        "[Action] Migrated instance 0 from prompt to token",
    ]


def test_limits_hold_whatever_an_agent_wants() -> None:
    application, lines = served()
    executor = RLActionExecutor(application, {"max_total_instances": 8, "min_instances_per_pool": 2})
    executor.execute([50.0, 0.0, 0.0])
    assert application.scaling_manager.total() == 8
    assert lines[-1] == "[Action Blocked] Max cluster size reached (8)"
    executor.execute([0.0, -1.0, 0.0])
    assert len(application.active("token")) == 2
    assert lines[-1] == "[Action Blocked] Cannot remove token, min limit reached"
    with pytest.raises(UsageError, match="three finite numbers"):
        executor.execute([0.0, float("nan"), 0.0])
    with pytest.raises(UsageError, match="did you mean 'action_scale_step'"):
        RLActionExecutor(application, {"action_scale_steps": 3})


def test_victims_have_least_to_do() -> None:
    application, _ = served()
    application.cluster.advance(20.0)
    least = min(
        application.active("token"), key=lambda instance: (instance.sched_memory, instance.instance_id)
    )
    RLActionExecutor(application, {"max_total_instances": 12}).execute([0.0, -0.2, 0.0])
    assert least not in application.active("token")


def test_the_start_state_says_what_instances_are_like() -> None:
    application, _ = served()
    manager = application.start_state_manager
    assert (manager.get_instance_config("token"), manager.get_parallelism("token")) == ("one", 1)
    with pytest.raises(UsageError, match="unknown pool"):
        manager.get_instance_config("tokens")  # type: ignore[arg-type]


def test_the_state_has_twenty_features_four_times() -> None:
    application, _ = served()
    collector = RLStateCollector({0: application})
    application.cluster.advance(STEP)
    state = collector.get_state()
    assert state.shape == (4 * FEATURES,) and np.isfinite(state).all()
    assert not state[: 3 * FEATURES].any(), "nothing came before the first interval"
    now = state[-FEATURES:]
    trace = application.cluster.trace
    come = int((trace.arrival < STEP).sum())
    assert now[0] == pytest.approx(np.log1p(come / STEP) / 10)
    assert now[2] == pytest.approx(trace.prompt[:come].mean() / 4096)
    assert now[7:10] == pytest.approx([0.03, 0.03, 0.0])
    assert 0.0 < now[10] <= 1.0 and 0.0 < now[11] <= 1.0 and 0.0 <= now[12] < 1.0
    assert (now[14:20] > 0).all()
    application.cluster.advance(2 * STEP)
    later = collector.get_state()
    assert np.array_equal(later[2 * FEATURES : 3 * FEATURES], now)


def test_starting_and_draining_instances_do_not_count() -> None:
    application, _ = served()
    collector = RLStateCollector([application])
    RLActionExecutor(application, {"max_total_instances": 12}).execute([0.2, -0.2, 0.0])
    application.cluster.advance(STEP / 2)
    collector.get_state()
    assert collector.last is not None and collector.last.instances == (3, 2, 0)


def test_an_interval_in_which_nothing_happens_is_one_like_any_other() -> None:
    """The original divides by zero where nobody comes, and cannot unpack where nobody is done."""
    late = trace_of("late", np.array([500.0]), np.array([10], np.int32), np.array([5], np.int32))
    application, _ = served(late)
    collector = RLStateCollector([application])
    application.cluster.advance(STEP)
    state = collector.get_state()[-FEATURES:]
    assert np.isfinite(state).all() and state[7:9] == pytest.approx([0.03, 0.03])
    assert not np.delete(state, [7, 8]).any()


def test_the_reward_is_the_formula_of_the_document() -> None:
    calculator = RLRewardCalculator()
    seen = IntervalSeen(np.zeros(FEATURES, np.float32), (4, 5, 1), (0.7, 0.2), 0.5, 0.1)
    first = calculator.calculate_reward(seen)
    cost, slo, use = -(4 + 0.6 * 5 + 1) / 100, -(0.4 * 0.25 + 0.6 * 0.01), 0.3 * (1.0 + 0.5)
    assert (first.cost, first.slo, first.stability, first.utilisation) == pytest.approx((cost, slo, 0.0, use))
    assert first.total == pytest.approx(0.6 * cost + 2.0 * slo + 0.05 * use)
    second = calculator.calculate_reward(replace(seen, instances=(6, 4, 1)))
    assert second.stability == pytest.approx(-0.3)


def test_rl_simulator_full_cycle() -> None:
    application, _ = served(requests(2, 400, rate=4.0))
    sim = simulator(application)
    sim.run()
    assert sim.decision_step == 8
    assert len(sim.agent.buffer.rewards) == 8 and np.isfinite(sim.agent.buffer.rewards).all()
    assert [round(reward.total, 9) for reward in sim.rewards] == [
        round(reward, 9) for reward in sim.agent.buffer.rewards
    ]
    assert len(application.cluster.rows()) == 400, "what is under way is served to its end"
    assert isinstance(sim.agent, PPOAgent) and not sim.agent.figures, "one pass is too little to learn from"


def test_an_agent_goes_on_learning_from_pass_to_pass_and_the_seed_decides() -> None:
    found = []
    for _ in range(2):
        agent, returns = PPOAgent({"max_total_instances": 12}, passes=2), []
        for _ in range(3):
            sim = simulator(served(requests(2, 200, rate=4.0))[0], agent)
            sim.run()
            returns.append(sum(reward.total for reward in sim.rewards))
        assert len(agent.buffer.rewards) == 24 and agent.figures["entropy"] > 0
        assert np.array_equal(agent.buffer.states[8], agent.buffer.states[0]), (
            "a pass begins at the beginning"
        )
        found.append(returns)
    assert found[0] == found[1]


def simulator(application: Application, agent: PPOAgent | None = None) -> TraceRLSimulator:
    """Eight decisions."""
    return TraceRLSimulator(
        trace=application.cluster.trace,
        cluster=application.cluster,
        applications={0: application},
        router="no_op",
        arbiter="no_op",
        end_time=80.0,
        rl_config={"max_total_instances": 12},
        agent=agent,
    )


def test_what_does_not_belong_together_is_refused() -> None:
    application, _ = served()
    with pytest.raises(UsageError, match="another trace"):
        TraceRLSimulator(requests(9), application.cluster, {0: application})
    with pytest.raises(UsageError, match="no decision"):
        TraceRLSimulator(application.cluster.trace, application.cluster, {0: application}, end_time=5.0)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[3] / "examples" / "05_inference_scaling.py"
    example = runpy.run_path(str(path))
    example["main"].__globals__["PASSES"] = 2
    example["main"]()
    said = capsys.readouterr().out
    assert "[Action] Added prompt instance 4 on server 4" in said and "'active_instances': 5" in said
    assert len(re.findall(r"30 decisions, mean reward [+-]0\.0", said)) == 2
    assert re.search(r"taken up again: mean reward [+-]0\.0", said)


def test_the_names_are_offered_beside_the_environments() -> None:
    from proreus import envs
    from proreus.worlds.inference import document

    for name in ("ScalingManager", "RLActionExecutor", "RLStateCollector", "RLRewardCalculator"):
        assert getattr(envs, name) is getattr(document, name)
    assert envs.TraceRLSimulator is TraceRLSimulator
    with pytest.raises(AttributeError, match="no attribute 'RLNothing'"):
        _ = envs.RLNothing
