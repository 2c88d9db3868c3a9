"""The pods environment: Gymnasium's rules, its two encodings, masks, rewards, seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the extra learn")

import gymnasium
from gymnasium.utils.env_checker import check_env

import proreus.envs
from proreus.api import make_scenario
from proreus.model.decision import Place
from proreus.model.errors import IllegalDecision, InputError, UsageError
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.env import PodsEnv
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.rewards import Reward
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from tests.oracles.kube_builders import node, pod

TINY = {"nodes": 5, "pods": 30}


def play(env: PodsEnv, seed: int, choice_seed: int = 0) -> tuple[list[Any], list[float], dict[str, Any]]:
    """A whole episode of random legal actions: observations, rewards, the last info."""
    random = np.random.default_rng(choice_seed)
    observed, info = env.reset(seed=seed)
    seen, rewards, over = [observed], [], False
    while not over:
        assert env.observation_space.contains(observed)
        action = random.choice(np.flatnonzero(info["action_mask"]))
        observed, reward, over, truncated, info = env.step(action)
        assert not truncated
        seen.append(observed)
        rewards.append(reward)
    assert env.observation_space.contains(observed)
    return seen, rewards, info


def same(a: Any, b: Any) -> bool:
    """Whether two observations are equal in every number."""
    if isinstance(a, dict):
        return all(np.array_equal(a[name], b[name]) for name in a)
    return np.array_equal(a, b)


@pytest.mark.parametrize("encoding", ["features", "vector", "document000"])
@pytest.mark.parametrize("reward", ["allocation", "completion"])
def test_gymnasium_finds_nothing_to_complain_about(encoding: str, reward: str) -> None:
    env = gymnasium.make(
        proreus.envs.PODS,
        scenario="small",
        encoding=encoding,
        reward=reward,
        generator=TINY,
        illegal="delay",  # the checker knows no masks
        render_mode="ansi",
    )
    check_env(env.unwrapped)


@pytest.mark.parametrize("scenario", ["small", "gpu"])
@pytest.mark.parametrize("work_conserving", [False, True])
def test_the_same_seed_gives_the_same_episode(scenario: str, work_conserving: bool) -> None:
    options = TINY if scenario == "small" else {"nodes": 5}
    first = play(PodsEnv(scenario, generator=options, work_conserving=work_conserving), seed=3)
    again = play(PodsEnv(scenario, generator=options, work_conserving=work_conserving), seed=3)
    other = play(PodsEnv(scenario, generator=options, work_conserving=work_conserving), seed=4)
    assert len(first[0]) == len(again[0])
    assert all(same(a, b) for a, b in zip(first[0], again[0], strict=True))
    assert first[1] == again[1]
    assert first[2]["measures"] == again[2]["measures"]
    assert first[1] != other[1]


def test_episodes_after_a_seed_follow_from_it_and_differ() -> None:
    def names(env: PodsEnv) -> list[str]:
        env.reset(seed=7)
        first_pods = []
        for _ in range(3):
            _, info = env.reset()
            first_pods.append(f"{info['pod']} {info['now']}")
        return first_pods

    first = names(PodsEnv(generator=TINY))
    assert first == names(PodsEnv(generator=TINY))
    assert len(set(first)) == 3


def test_the_constructors_seed_is_that_of_the_first_reset() -> None:
    quiet, pods_env = PodsEnv(generator=TINY, seed=5), PodsEnv(generator=TINY)
    assert same(quiet.reset()[0], pods_env.reset(seed=5)[0])
    assert same(quiet.reset()[0], pods_env.reset()[0])


def test_a_fixed_workload_is_every_episode() -> None:
    workload = generate("small", 1, **TINY)
    env = PodsEnv(workload)
    assert same(env.reset(seed=1)[0], env.reset(seed=2)[0])
    assert env.observation is not None
    assert env.observation.compiled.workload is workload


def test_a_function_from_seeds_to_workloads_is_a_scenario() -> None:
    asked: list[int] = []

    def make(seed: int) -> Workload:
        asked.append(seed)
        return generate("small", seed, **TINY)

    env = PodsEnv(make)
    env.reset(seed=1)
    env.reset()
    assert asked[0] == 0 and len(set(asked[1:])) == 2


def test_every_episode_has_as_many_nodes() -> None:
    env = PodsEnv(lambda seed: generate("small", seed, nodes=5 if seed == 0 else 6, pods=10))
    with pytest.raises(InputError, match="6 nodes and not 5"):
        env.reset(seed=1)


def test_features_are_those_of_legal_nodes() -> None:
    nodes = (node("small", cpu=1000, memory=4096), node("large", cpu=4000, memory=4096))
    env = PodsEnv(Workload("w", nodes, (pod("p", cpu=2000, memory=1024),)))
    observed, info = env.reset()
    assert observed["nodes"].shape == (2, len(PAIR_FEATURES))
    assert observed["context"].shape == (len(CONTEXT_FEATURES),)
    assert observed["action_mask"].tolist() == [0, 1, 0, 0, 1, 1]
    assert info["action_mask"].tolist() == [False, True, False, False, True, True]
    assert not observed["nodes"][0].any()
    pair = dict(zip(PAIR_FEATURES, observed["nodes"][1].tolist(), strict=True))
    assert pair["cpu_left_share"] == 0.5 and pair["memory_left_share"] == 0.75 and pair["empty_node"] == 1.0
    context = dict(zip(CONTEXT_FEATURES, observed["context"].tolist(), strict=True))
    assert context["cpu_only"] == 1.0 and context["shares_gpu"] == 0.0
    assert context["cpu_request"] == 0.5 and context["memory_request"] == 0.25
    assert context["cpu_in_use"] == 0.0 and context["legal_nodes"] == 0.5 and context["preempting"] == 0.0


def test_the_vector_of_document_000() -> None:
    nodes = (node("a", cpu=4000, memory=4096), node("b", cpu=8000, memory=8192))
    pods = (pod("first", cpu=2000, memory=1024), pod("second", cpu=1000, memory=2048))
    env = PodsEnv(Workload("w", nodes, pods), encoding="document000")
    first, _ = env.reset()
    np.testing.assert_allclose(first, [0, 0, 0, 0, 0.02, 1.0])
    second, *_ = env.step(1)
    np.testing.assert_allclose(second, [0, 0, 0.25, 0.125, 0.01, 2.0])
    last, _, over, _, _ = env.step(0)
    assert over and not last.any() and last.shape == (6,)


def test_an_illegal_action_raises_and_changes_nothing() -> None:
    workload = Workload("w", (node("n", cpu=1000),), (pod("p", cpu=2000), pod("q", cpu=500)))
    env = PodsEnv(workload, illegal="raise")
    _, info = env.reset()
    assert info["pod"] == "p"
    with pytest.raises(IllegalDecision, match="masked"):
        env.step(0)
    with pytest.raises(IllegalDecision, match="outside"):
        env.step(99)
    assert env.observation is not None and env.observation.subject.name == "p"


def test_an_illegal_action_can_count_as_a_delay() -> None:
    workload = Workload("w", (node("n", cpu=1000),), (pod("p", cpu=2000), pod("q", cpu=500)))
    env = PodsEnv(workload)
    env.reset()
    _, reward, over, _, info = env.step(0)
    assert (reward, over, info["pod"], info["illegal"]) == (0.0, False, "q", True)
    _, reward, over, _, info = env.step(0)
    assert (reward, over, info["illegal"]) == (0.5, True, False)
    assert [row[1] for row in env.outcome().log] == ["failed", "running"]


def test_work_conserving_masks_waiting_where_there_is_room() -> None:
    workload = Workload("w", (node("n", cpu=1000),), (pod("p", cpu=800), pod("q", cpu=500)))
    env = PodsEnv(workload, work_conserving=True)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [True, False, False, False]
    *_, info = env.step(0)
    assert info["action_mask"].tolist() == [False, False, True, True]


def test_placement_takes_the_devices_that_the_features_describe() -> None:
    """A share goes to the device that fragments least, not always to the tightest."""
    env = PodsEnv("gpu", generator={"nodes": 6})
    random = np.random.default_rng(0)
    _, info = env.reset(seed=2)
    over = False
    while not over:
        observation = env.observation
        assert observation is not None
        places = np.flatnonzero(info["action_mask"][: env.node_count])
        action = int(random.choice(places)) if places.size else 2 * env.node_count
        expected = env._running()._devices[action] if places.size else 0
        subject = observation.pod
        _, _, over, _, info = env.step(action)
        if places.size:
            assert env._running().world.state.pod_devices[subject] == expected


@pytest.mark.parametrize("reward", ["allocation", "completion"])
@pytest.mark.parametrize("name", ["best_fit", "kube"])
def test_a_policy_in_the_environment_does_what_it_does_in_the_world(reward: Reward, name: str) -> None:
    workload = generate("small", 2, **TINY)
    env, world = PodsEnv(workload, reward=reward), PodsWorld(workload)
    env.reset()
    inside, outside = make_policy(name), make_policy(name)
    while (observation := env.observation) is not None:
        env.decide(inside.decide(observation))
    while (observation := world.next_decision()) is not None:
        world.apply(outside.decide(observation))
    assert str(env.outcome().log) == str(world.outcome().log)


def test_completion_sums_to_the_mean_time_to_completion() -> None:
    workload = generate("small", 4, **TINY, peak_load=2.0)
    env = PodsEnv(workload, reward="completion")
    env.reset()
    rule, total = make_policy("best_fit"), 0.0
    while (observation := env.observation) is not None:
        total += env.decide(rule.decide(observation))[1]
    outcome = env.outcome()
    assert outcome.measures["failures"] == 0
    # The last decision ends the last wait; what runs on after it is part of its reward.
    work = sum(each.duration for each in workload.pods)
    expected = -outcome.measures["jct_mean"] * len(workload.pods) / work
    assert total == pytest.approx(expected)


def test_turning_pods_away_is_worse_than_running_them() -> None:
    workload = generate("small", 4, **TINY)
    totals = {}
    for name in ("reject", "best_fit"):
        env = PodsEnv(workload, reward="completion")
        env.reset()
        rule, total = make_policy("best_fit"), 0.0
        while (observation := env.observation) is not None:
            if name == "reject":
                total += env.step(2 * env.node_count + 1)[1]
            else:
                total += env.decide(rule.decide(observation))[1]
        totals[name] = total
    assert totals["reject"] < 2 * totals["best_fit"] < 0


def test_completion_counts_pods_that_never_end_only_while_they_wait() -> None:
    pods = (
        replace(pod("ends", cpu=1000), duration=10.0),
        pod("stays", cpu=1000, arrival=4.0),
    )
    env = PodsEnv(Workload("w", (node("n", cpu=1000),), pods), reward="completion")
    env.reset()
    # "ends" runs from 0 to 10, "stays" comes at 4, is delayed, starts at 10 and never leaves.
    assert env.step(0)[1] == pytest.approx(-4.0 / 10.0)
    assert env.step(2)[1] == pytest.approx(-(6.0 + 6.0) / 10.0)
    assert env.step(0)[1] == pytest.approx(0.0)


def test_allocation_sums_to_what_was_placed_and_evictions_count_against_it() -> None:
    pods = (
        replace(pod("low", cpu=600), duration=100.0),
        replace(pod("high", cpu=800, priority=5, arrival=1.0), duration=5.0),
    )
    env = PodsEnv(Workload("w", (node("n", cpu=1000),), pods), world=PodsOptions(requeue_evicted=False))
    env.reset()
    assert env.step(0)[1] == pytest.approx(0.6)
    assert env.step(1)[1] == pytest.approx(0.2)  # preempt: 0.8 came, 0.6 went


def test_allocation_looks_at_gpus_where_there_are_any() -> None:
    workload = Workload(
        "w", (node("n", cpu=8000, gpus=2, gpu_model="T4"),), (pod("p", cpu=1000, gpu=(1, 500)),)
    )
    env = PodsEnv(workload)
    env.reset()
    assert env.step(0)[1] == pytest.approx(0.25)


def test_truncation_is_gymnasiums_time_limit() -> None:
    env = gymnasium.make(proreus.envs.PODS, generator=TINY, max_episode_steps=3)
    env.reset(seed=0)
    ends = [env.step(np.int64(2 * 5))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_render_names_the_pod_and_every_node() -> None:
    env = PodsEnv(
        Workload("w", (node("n0", cpu=1000), node("n1", cpu=9000)), (pod("p", cpu=2000),)), render_mode="ansi"
    )
    env.reset()
    text = env.render()
    assert isinstance(text, str)
    assert "p asks for 2000m CPU" in text
    lines = text.splitlines()
    assert "n0" in lines[1] and "may not" in lines[1] and "may take it" in lines[2]
    env.step(1)
    assert "over" in str(env.render())
    assert PodsEnv(generator=TINY, seed=1).render_mode is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scenario": "smal"}, "unknown scenario 'smal'; did you mean 'small'"),
        ({"encoding": "feature"}, "unknown encoding"),
        ({"reward": "speed"}, "unknown reward"),
        ({"illegal": "ignore"}, "unknown illegal"),
        ({"generator": {"nodez": 3}}, "unknown generator option 'nodez'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PodsEnv(**settings)


def test_bad_uses_are_named() -> None:
    workload = Workload("w", (node("n"),), ())
    with pytest.raises(UsageError, match="generator options need"):
        PodsEnv(workload, generator=TINY)
    with pytest.raises(UsageError, match="reset the environment"):
        PodsEnv(generator=TINY).step(0)
    with pytest.raises(InputError, match="no pod to decide"):
        PodsEnv(workload).reset()
    env = PodsEnv(Workload("w", (node("n"),), (pod("p"),)))
    env.reset()
    env.decide(Place(0))
    with pytest.raises(IllegalDecision):
        env.step(2)


def test_scenarios_of_the_command_line_and_of_python_are_taken(tmp_path: Path) -> None:
    named, made = PodsEnv("gpu@6"), PodsEnv(cast(Any, make_scenario("pods", "gpu@6")))
    assert named.node_count == made.node_count == 6
    np.testing.assert_array_equal(named.reset(seed=2)[0]["nodes"], made.reset(seed=2)[0]["nodes"])
    (tmp_path / "k8ssim").mkdir()
    with pytest.raises(InputError, match=r"nodes_500\.yaml: no such file"):
        PodsEnv("k8ssim/large", data=tmp_path)
    with pytest.raises(UsageError, match="'gup'"):
        PodsEnv("gup")
