"""The hooks of the document over `ServerlessSchedulingEnv`: each method, as it stands there, has effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.functions.env import ServerlessSchedulingEnv
from tests.worlds.functions.document import HOOKS, subclass_with


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


def played(env: ServerlessSchedulingEnv, seed: int = 0) -> list[float]:
    """The rewards of an episode of random legal actions, drawn by the seed."""
    draw = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    rewards: list[float] = []
    over = False
    while not over:
        assert len(rewards) < 2_000, "the episode does not end"
        _, reward, over, _, info = env.step(int(draw.choice(np.flatnonzero(info["action_mask"]))))
        rewards.append(reward)
    return rewards


def test_the_documents_validity_check_agrees_with_the_masks() -> None:
    """It refused everything after reset while `node_active` meant that a node holds an instance."""
    env = subclass_with("_is_action_valid")(rows=40)
    env.set_dataset(document_rows())
    ours = ServerlessSchedulingEnv(rows=40, dataset=document_rows())
    _, info = env.reset(seed=2)
    _, expected = ours.reset(seed=2)
    over, full = False, 0
    while not over:
        np.testing.assert_array_equal(info["action_mask"], expected["action_mask"])
        assert env.state["node_active"].all()
        full += int((info["action_mask"] == 0).sum())
        action = int(np.argmax(info["action_mask"]))
        _, _, over, _, info = env.step(action)
        *_, expected = ours.step(action)
    assert full > 0, "some node was full at some time"


def test_the_documents_reward_is_paid() -> None:
    env, plain = (
        made(rows=20, dataset=document_rows())
        for made in (subclass_with("_calculate_reward"), ServerlessSchedulingEnv)
    )
    env.reset(seed=1)
    plain.reset(seed=1)
    for place in (-1, 0, -1, 1):
        before, chosen = env.state, int(np.flatnonzero(env.action_masks())[place])
        late = np.clip((before["current_function_rart"][0] - 0.1) / 4.9, 0.0, 1.0)
        prices = before["node_price"]
        cost = (prices[chosen] - prices.min()) / (prices.max() - prices.min())
        _, reward, *_ = env.step(chosen)
        assert reward == pytest.approx(-(0.7 * late + 0.3 * cost), abs=1e-6)
        _, other, *_ = plain.step(chosen)
        assert env.state["node_deployed"].tolist() == plain.state["node_deployed"].tolist()
        assert reward != pytest.approx(other), "the world's own reward is another one"


def test_the_documents_transition_replaces_the_world() -> None:
    env = subclass_with("_get_next_state")(rows=1, dataset=document_rows())
    seen, info = env.reset(seed=0)
    asked = seen["current_function_request"].copy()
    held = np.zeros((10, 2))
    for _ in range(5):
        node = int(np.argmax(info["action_mask"]))
        before = env.state.copy()
        kept = env.state
        held[node] += asked
        seen, reward, over, _, info = env.step(node)
        for name, values in before.items():
            np.testing.assert_array_equal(kept[name], values, err_msg="the old state stays as it was")
        np.testing.assert_allclose(seen["node_deployed"], held, rtol=1e-5)
        load = seen["node_utilization"][node, :2].mean()
        assert seen["current_function_rart"][0] == pytest.approx(0.1 + 4.9 * load, rel=1e-5)
        prices = seen["node_price"]
        cost = (prices[node] - prices.min()) / (prices.max() - prices.min())
        assert reward == pytest.approx(-(0.7 * load + 0.3 * cost), abs=1e-5), "of this action, no step late"
        assert not over
        asked = seen["current_function_request"].copy()
    rows = list(document_rows(6))
    np.testing.assert_allclose(asked, [rows[5]["cpu_request"], rows[5]["mem_request"]], rtol=1e-5)
    while not over:
        _, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
    room = env.state["node_capacity"] - env.state["node_deployed"]
    assert not (room >= env.state["current_function_request"]).all(axis=1).any(), "ends where nothing fits"


def test_the_documents_tasks_are_what_is_placed() -> None:
    rows = list(document_rows(7))
    for hooks in (("_get_next_task",), ("set_dataset",), ("set_dataset", "_get_next_task")):
        env = subclass_with(*hooks)(rows=7)
        env.set_dataset(iter(rows))
        seen, _ = env.reset(seed=0)
        asked = [rows[0]["cpu_request"], rows[0]["mem_request"]]
        np.testing.assert_allclose(seen["current_function_request"], asked, atol=2e-3, err_msg=str(hooks))
    env = subclass_with("_get_next_task")(rows=7)
    env.set_dataset(iter(rows))
    first, _ = env.reset(seed=0)
    again, info = env.reset()
    np.testing.assert_array_equal(first["current_function_request"], again["current_function_request"])
    assert info["dataset_restarts"] == 1, "the backup of an iterator begins anew"


def test_tasks_of_ones_own_need_no_dataset() -> None:
    class Two(ServerlessSchedulingEnv):
        """Two kinds of task in turn."""

        drawn = 0

        def _get_next_task(self) -> dict[str, Any]:
            self.drawn += 1
            return {"cpu_request": 1.0 + self.drawn % 2, "mem_request": 1.0, "requests": 3}

    env = Two(rows=6)
    seen, _ = env.reset(seed=0)
    assert env.drawn == 6 and seen["current_function_request"].tolist() == [2.0, 1.0]
    assert len(played(env)) >= 6


def test_all_hooks_together_are_the_documents_process() -> None:
    env = subclass_with(*HOOKS)()
    env.set_dataset(document_rows())
    lengths = [len(played(env, seed)) for seed in range(3)]
    assert min(lengths) > 5, "an episode goes on until nothing fits"


def test_a_node_that_is_taken_out_is_not_legal() -> None:
    class Down(ServerlessSchedulingEnv):
        """Node 0 goes down with the first step."""

        def _get_next_state(self, action: int) -> Any:
            state = super()._get_next_state(action)
            state["node_active"][0] = 0
            return state

    env = Down(rows=30, dataset=document_rows())
    _, info = env.reset(seed=0)
    assert info["action_mask"].sum() > 0
    over = False
    while not over:
        seen, _, over, _, info = env.step(0)
        assert over or (info["action_mask"][0] == 0 and seen["node_active"][0] == 0)
    assert info["measures"]["requests"] > 0, "the world went on to its end"


def test_an_illegal_action_costs_and_helps_nobody() -> None:
    def first(illegal: Any, **settings: Any) -> tuple[ServerlessSchedulingEnv, float, bool, dict[str, Any]]:
        rows = [{"cpu_request": 3.0, "mem_request": 1.0, "requests": 5}] * 3
        env = ServerlessSchedulingEnv(dataset=rows, illegal=illegal, **settings)
        env.reset(seed=0)
        assert not env.action_masks()[:4].any(), "two cores are too few"
        _, reward, over, _, info = env.step(0)
        return env, reward, over, info

    env, reward, over, info = first("random")
    held = np.flatnonzero(env.state["node_deployed"][:, 0])
    assert info["illegal"] and not over and held.size == 1 and held[0] >= 4
    _, free, *_ = first("random", illegal_penalty=0.0)
    assert reward == pytest.approx(free - 1.0)
    env, reward, *_ = first("first")
    assert np.flatnonzero(env.state["node_deployed"][:, 0]).tolist() == [4]
    _, reward, over, _ = first("end", illegal_penalty=10.0)
    assert over and reward == -10.0, "as in the document"
    with pytest.raises(IllegalDecision, match="masked"):
        first("raise")
    with pytest.raises(UsageError, match="illegal"):
        first("wait")
    with pytest.raises(UsageError, match="illegal_penalty"):
        first("first", illegal_penalty=-1.0)


def test_hooks_that_say_nothing_useful_are_one_line() -> None:
    class Never(ServerlessSchedulingEnv):
        """No node is ever valid."""

        def _is_action_valid(self, action: int) -> bool:
            return False

    class Nothing(ServerlessSchedulingEnv):
        """There is no next state."""

        def _get_next_state(self, action: int) -> Any:
            return {"node_active": np.ones(10)}

    with pytest.raises(UsageError, match="leads to a decision"):
        Never(seconds=2.0).reset(seed=0)
    env = Nothing()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="_get_next_state: 'node_utilization' is missing"):
        env.step(0)
    measured = subclass_with("_get_next_state")(reward="objective", dataset=document_rows())
    measured.reset(seed=0)
    with pytest.raises(UsageError, match="measured in the world"):
        measured.step(8)
