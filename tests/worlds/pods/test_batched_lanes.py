"""Batched lanes against the pods world itself, decision by decision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from proreus.contract.lanes import Steps
from proreus.model.decision import Delay, Place, from_action
from proreus.model.errors import IllegalDecision, UsageError, WorkError
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, cluster_scale, encode_pair
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.base_pods import Reward
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from tests.learning.learning_cases import bits, cpu_world, gpu_world, small_world

WORLDS = [small_world, gpu_world]


def play(batch: BatchedPods, steps: int, seed: int = 0) -> list[Steps]:
    """Random legal actions."""
    random = np.random.default_rng(seed)
    seen, results = batch.observe(), []
    for _ in range(steps):
        results.append(batch.step(np.array([random.choice(np.flatnonzero(mask)) for mask in seen.legal])))
        seen = results[-1].choices
    return results


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("make", WORLDS)
def test_a_lane_is_the_world_decision_by_decision(make: Callable[[], Compiled], drop: bool) -> None:
    compiled = make()
    nodes = len(compiled.workload.nodes)
    options = PodsOptions(drop_failures=drop)
    batch = BatchedPods(compiled, 1, options=BatchOptions(redraw=False, may_delay=True, world=options))
    world, scale = PodsWorld(compiled, options), cluster_scale(compiled)
    random = np.random.default_rng(1)
    seen, ended = batch.reset(), False
    pair = np.zeros(len(PAIR_FEATURES))
    while not ended:
        while True:  # the world's decisions that leave no choice
            observation = world.next_decision()
            assert observation is not None
            mask = observation.action_mask()
            if mask[: 2 * nodes].any():
                break
            world.apply(Delay())
        placing = mask[:nodes].any()
        assert (seen.legal[0, :nodes] == mask[:nodes]).all()
        assert (seen.legal[0, nodes : 2 * nodes] == (mask[nodes : 2 * nodes] & ~placing)).all()
        assert seen.legal[0, 2 * nodes :].tolist() == [True, False]
        devices = {}
        for n in np.flatnonzero(seen.legal[0, :nodes]).tolist():
            devices[n] = encode_pair(world.cluster, world.state, scale, observation.pod_class, n, pair)
            np.testing.assert_array_equal(seen.rows[0, n], pair.astype(np.float32))
        action = int(random.choice(np.flatnonzero(seen.legal[0])))
        result = batch.step(np.array([action]))
        seen, ended = result.choices, bool(result.ended[0])
        decision = from_action(action, nodes)
        world.apply(Place(action, devices[action]) if isinstance(decision, Place) else decision)
    while world.next_decision() is not None:
        world.apply(Delay())


@pytest.mark.parametrize("reward", ["allocation", "completion"])
def test_rewards_add_up(reward: Reward) -> None:
    compiled = small_world()
    batch = BatchedPods(compiled, 1, reward=reward, options=BatchOptions(redraw=False))
    world = PodsWorld(compiled)
    seen, total, ended = batch.reset(), 0.0, False
    while not ended:
        result = batch.step(np.array([int(seen.legal[0].argmax())]))
        seen, total, ended = result.choices, total + float(result.rewards[0]), bool(result.ended[0])
    while (observation := world.next_decision()) is not None:
        mask = observation.action_mask()
        nodes = len(compiled.workload.nodes)
        world.apply(
            from_action(int(mask[: 2 * nodes].argmax()) if mask[: 2 * nodes].any() else 2 * nodes, nodes)
        )
    if reward == "completion":
        log = world.outcome().log
        flow = sum(row[5] - row[3] for row in log if row[1] == "done")
        work = np.mean([pod.duration for pod in compiled.workload.pods])
        assert len(log) == len(compiled.workload.pods)
        assert total == pytest.approx(-flow / work, rel=1e-9)
    else:
        requests = compiled.cluster.classes.request[compiled.cluster.pod_class, 0]
        assert total == pytest.approx(requests.sum() / requests.mean(), rel=0.2)


def test_every_episode_differs_and_same_seed_same_episodes() -> None:
    first, second = (BatchedPods(small_world(), 3, seed=5, horizon=40) for _ in range(2))
    runs = [play(batch, 150) for batch in (first, second)]
    for one, two in zip(*runs, strict=True):
        assert bits(one.rewards) == bits(two.rewards)
        assert bits(one.choices.rows) == bits(two.choices.rows)
    assert sum(int(each.ended.sum()) for each in runs[0]) >= 3
    classes = [bits(lane.cluster.pod_class) for lane in first.lanes]
    assert len(set(classes)) == 3


def test_a_captured_batch_goes_on_as_if_nothing_had_happened() -> None:
    batch = BatchedPods(small_world(), 2, seed=1, horizon=30, reward="completion")
    play(batch, 37)
    saved = batch.capture()
    expected = play(batch, 80, seed=2)
    other = BatchedPods(small_world(), 2, seed=9, horizon=30, reward="completion")
    other.restore(saved)
    for one, two in zip(expected, play(other, 80, seed=2), strict=True):
        assert bits(one.rewards) == bits(two.rewards)
        assert bits(one.choices.rows) == bits(two.choices.rows)
    with pytest.raises(WorkError, match="does not fit"):
        BatchedPods(small_world(), 2, horizon=31).restore(saved)


def test_workloads_of_several_sizes_take_turns() -> None:
    batch = BatchedPods([small_world(3), gpu_world(6)], 4, horizon=30)
    for result in play(batch, 60):
        assert result.choices.legal.shape == (4, 14)
        assert not result.choices.legal[0, 3:6].any()
    with pytest.raises(IllegalDecision, match="no such node"):
        batch.step(np.array([4, 0, 4, 0]))


def test_what_cannot_be_is_refused() -> None:
    batch = BatchedPods(cpu_world([1000, 1000], [600, 600]), 1, options=BatchOptions(redraw=False))
    batch.reset()
    with pytest.raises(IllegalDecision):
        batch.step(np.array([4]))  # delay is not allowed here
    with pytest.raises(IllegalDecision):
        batch.step(np.array([99]))
    with pytest.raises(UsageError, match="pods that end"):
        BatchedPods(gpu_world(), 1, reward="completion")
    with pytest.raises(UsageError):
        BatchedPods(gpu_world(), 0)
    with pytest.raises(WorkError, match="anything to choose"):
        BatchedPods(cpu_world([1000], [600]), 1).reset()
