"""The document's environment: names and shapes, datasets, rewards, and the plain environment beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import proreus.envs
from proreus.model.errors import UsageError
from proreus.worlds.functions.bench.claims import batch_rate, plain_rate
from proreus.worlds.functions.bench.peer import PlainEnv
from proreus.worlds.functions.encoding.document import parts_of
from proreus.worlds.functions.env import PaperReward, Reward, ServerlessSchedulingEnv, reward_named
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.batch import EpisodeBatch
from proreus.worlds.functions.state.compile import compile_demands

SHORT = FunctionsScenario("short", seconds=8.0, functions=4, part="train")


def document_rows(count: int | None = None, seed: int = 0) -> Iterator[dict[str, Any]]:
    """As the document's script makes them."""
    draw = np.random.default_rng(seed)
    made = 0
    while count is None or made < count:
        yield {
            "cpu_request": draw.uniform(0.1, 4.0),
            "mem_request": draw.uniform(0.1, 8.0),
            "io_network": draw.uniform(10, 100),
            "io_disk": draw.uniform(100, 1000),
            "requests": int(draw.integers(1, 20)),
        }
        made += 1


def test_the_documents_names_and_shapes() -> None:
    env = proreus.envs.ServerlessSchedulingEnv(num_nodes=10, num_functions=5)
    assert isinstance(env, ServerlessSchedulingEnv) and env.action_space == gymnasium.spaces.Discrete(10)
    seen, _ = env.reset(seed=1)
    assert {name: value.shape for name, value in seen.items()} == {
        "node_utilization": (10, 4),
        "node_capacity": (10, 2),
        "node_price": (10,),
        "node_deployed": (10, 2),
        "node_active": (10,),
        "current_function_request": (2,),
        "current_function_io": (2,),
        "current_function_requests": (1,),
        "current_function_rart": (1,),
        "cluster_function_requests": (5,),
    }
    assert seen["node_capacity"][0].tolist() == [2.0, 8.0] and seen["node_price"][0] == np.float32(0.086)
    assert seen["node_active"].all(), "usable, whatever a node holds"
    assert not seen["node_deployed"].any() and seen["current_function_requests"] == 1
    after, *_ = env.step(3)
    assert after["node_active"][3] and after["node_deployed"][3].all()


@pytest.mark.parametrize("keep_alive", ["fixed", "histogram", "decide"])
def test_the_flat_variant_is_taken_without_a_warning(keep_alive: str) -> None:
    """Warnings are errors in these tests."""
    env = gymnasium.make("proreus/Functions-v0", flat=True, keep_alive=keep_alive, wait=True, seconds=10.0)
    check_env(env.unwrapped, skip_render_check=True)
    check_env_of_sb3(env.unwrapped)
    extra = 1 + (len(KEEPS) if keep_alive == "decide" else 0)
    assert env.action_space.n == 10 + extra  # type: ignore[attr-defined]
    seen, info = env.reset(seed=5)
    for _ in range(300):
        assert env.observation_space.contains(seen)
        seen, _, over, _, info = env.step(env.action_space.sample(info["action_mask"]))
        if over:
            assert info["measures"]["requests"] > 0
            seen, info = env.reset()


def test_a_finite_dataset_begins_anew_and_says_so() -> None:
    env = ServerlessSchedulingEnv(rows=4, dataset=document_rows(6))
    first, info = env.reset(seed=3)
    asked = [first["current_function_request"].tolist()]
    for restarts in (0, 1, 1, 2):
        seen, info = env.reset()
        asked.append(seen["current_function_request"].tolist())
        assert info["dataset_restarts"] == restarts
    assert asked[0] == asked[2] == asked[4] and asked[1] == asked[3] != asked[0]
    again, info = env.reset(seed=3)
    assert info["dataset_restarts"] == 0
    np.testing.assert_array_equal(again["current_function_request"], first["current_function_request"])


def test_datasets_of_all_kinds(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("cpu_request,mem_request,requests,function\n0.5,1,3,resize\n1.5,2,1,video\n")
    requests = tmp_path / "requests.csv"
    requests.write_text("arrival,function,duration\n0.5,a,0.2\n0.1,b,0.3\n2.5,a,0.2\n")
    demand = SHORT.demand(0)
    env = ServerlessSchedulingEnv(num_nodes=10, num_functions=3)
    for dataset in (rows, str(requests), demand, SHORT, list(document_rows(3)), None):
        env.set_dataset(dataset)
        seen, info = env.reset(seed=1)
        assert env.observation_space.contains(seen)
        over = False
        while not over:
            _, reward, over, _, info = env.step(int(np.argmax(info["action_mask"])))
            assert -1.0 - 1e-9 <= reward <= 0.0
    for wrong, says in (
        ({"cpu_request": 1.0}, "not a single mapping"),
        (3, "not int"),
        ([], "no rows"),
        ([{"cpu_request": 1.0}], "no 'mem_request'"),
        ([{"cpu_request": "x", "mem_request": 1.0}], "cpu_request: 'x' is not a number"),
        ([{"cpu_request": 1.0, "mem_request": 1.0, "gpu": 1}], "unknown field of a row 'gpu'"),
        ([[1.0, 2.0]], "not a mapping"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)):
            env.set_dataset(wrong)
            env.reset(seed=1)


def test_what_is_no_setting_is_refused() -> None:
    for settings, says in (
        ({"num_nodes": 0}, "num_nodes"),
        ({"keep_alive": "for ever"}, "keep_alive"),
        ({"beta": 2.0}, "beta"),
        ({"reward": "latency"}, "did you mean 'latency_cost'"),
        ({"colour": "red"}, "unknown setting 'colour'"),
        ({"nodes": "4 large ones"}, "nodes"),
        ({"gap": 0.0}, "gap"),
    ):
        with pytest.raises(UsageError, match=says):
            ServerlessSchedulingEnv(**settings)


def played(env: ServerlessSchedulingEnv, seed: int = 2) -> tuple[list[float], dict[str, Any]]:
    """The rewards of an episode in which the first legal node is taken, and the last `info`."""
    _, info = env.reset(seed=seed)
    over, rewards = False, []
    while not over:
        _, reward, over, _, info = env.step(int(np.argmax(info["action_mask"])))
        rewards.append(reward)
    return rewards, info


def test_rewards_are_named_and_add_up() -> None:
    latency, slo = reward_named("latency_cost", 0.7), reward_named("slo_cost", 0.6)
    assert isinstance(latency, Reward) and isinstance(slo, Reward)
    both = 0.5 * latency + 0.5 * slo
    assert both.weights.tolist() == pytest.approx([0.35, 0.35, 0.3, 0.0])
    found = [
        played(ServerlessSchedulingEnv(reward=reward, seconds=20.0))[0] for reward in (latency, slo, both)
    ]
    np.testing.assert_allclose(found[2], 0.5 * np.array(found[0]) + 0.5 * np.array(found[1]))
    assert found[0] == played(ServerlessSchedulingEnv(reward="latency_cost", beta=0.7, seconds=20.0))[0]
    rewards, info = played(ServerlessSchedulingEnv(reward="objective", seconds=20.0))
    assert info["measures"]["objective"] == pytest.approx(-sum(rewards))


def test_the_paper_scales_by_what_it_has_seen() -> None:
    env = ServerlessSchedulingEnv(reward="paper", seconds=20.0)

    first, _ = played(env)
    assert first[0] == 0.0, "the first is the least and the most"
    assert played(env)[0] == first, "a seed begins without memory"
    assert min(first) >= -1.0 and max(first) <= 0.0
    assert isinstance(reward_named("paper", 0.5), PaperReward)


def test_the_plain_environment_says_the_same() -> None:
    """The peer of the benchmark: observations, masks and rewards, to the last digit of a float32."""
    kept = 10.0
    demands = [SHORT.demand(seed) for seed in range(3)]
    plain = PlainEnv(demands, SHORT.terms, kept=kept)
    reward = reward_named("latency_cost", SHORT.terms.beta)
    assert isinstance(reward, Reward)
    draw = np.random.default_rng(0)
    for number, demand in enumerate(demands):
        batch = EpisodeBatch(
            compile_demands([demand], SHORT.terms, "fixed", kept), 1, reward=reward, shares=False
        )
        steps = batch.reset(0)
        seen, info = plain.reset(options={"episode": number})
        over, count = False, 0
        while not over:
            for part in parts_of(SHORT.terms.count, 5):
                ours = steps.observed[0, part.begin : part.begin + part.size].reshape(part.shape)
                np.testing.assert_allclose(ours, seen[part.name], rtol=1e-6, err_msg=part.name)
            np.testing.assert_array_equal(steps.legal[0, : SHORT.terms.count], info["action_mask"])
            action = int(draw.choice(np.flatnonzero(info["action_mask"])))
            steps = batch.step(np.array([action]))
            seen, worth, over, _, info = plain.step(action)
            assert steps.rewards[0] == pytest.approx(worth, abs=1e-12)
            assert bool(steps.ended[0]) == over
            count += 1
        assert count > 3


def test_rates_are_measured() -> None:
    demands = [SHORT.demand(seed) for seed in range(2)]
    assert batch_rate(demands, 4, 0.02) > plain_rate(demands, 0.05) > 0.0
