"""PPO: its parts against plain loops, what it learns, and that it repeats itself to the last bit."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32
from proreus.learning.step import Update
from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.policies.scorer import forward, new_scorer_scratch
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.fused_ppo import FusedPPO, FusedPPOConfig, estimate, fused_ppo
from proreus.worlds.pods.training.rollout import new_rollout
from tests.learning.learning_cases import bits, cpu_world, gpu_world, small_world

SHORT = FusedPPOConfig(steps=6 * 16 * 32, rollout_steps=32, threads=2)


def short_batch() -> BatchedPods:
    """Sixteen lanes with ends of episodes inside every rollout."""
    return BatchedPods(small_world(), 16, seed=2, horizon=25, reward="completion")


def test_advantages_are_those_of_a_plain_loop() -> None:
    random = np.random.default_rng(0)
    rollout = new_rollout(3, 9, 2)
    rollout.value[:] = random.normal(size=(3, 10))
    rollout.reward[:] = random.normal(size=(3, 9))
    rollout.ended[:] = random.random((3, 9)) < 0.3
    estimate(rollout, 0.9, 0.8, 2.0, 3.0)
    values = rollout.value.astype(float) * 3.0 + 2.0
    for e in range(3):
        for t in range(9):
            expected, weight = 0.0, 1.0
            for later in range(t, 9):
                after = 0.0 if rollout.ended[e, later] else values[e, later + 1]
                expected += weight * (rollout.reward[e, later] + 0.9 * after - values[e, later])
                weight *= 0.9 * 0.8
                if rollout.ended[e, later]:
                    break
            assert rollout.advantage[e, t] == pytest.approx(expected, rel=1e-4, abs=1e-4)
            assert rollout.target[e, t] == pytest.approx(expected + values[e, t], rel=1e-4, abs=1e-4)


def greedy_return(compiled: Compiled, params: F32) -> float:
    """Return of one episode of the workload itself with the most likely actions."""
    options = BatchOptions(redraw=False, world=PodsOptions(drop_failures=True))
    batch = BatchedPods(compiled, 1, options=options)
    work, total, ended = new_scorer_scratch(batch.nodes), 0.0, False
    seen = batch.reset()
    while not ended:
        legal = np.flatnonzero(seen.legal[0, : batch.nodes])
        forward(params, seen.rows[0, legal], (len(legal), False), seen.context[0], work)
        result = batch.step(legal[[int(work.logits[: len(legal)].argmax())]])
        seen, total, ended = result.choices, total + float(result.rewards[0]), bool(result.ended[0])
    return total


def train(compiled: Compiled, config: FusedPPOConfig, lanes: int = 16) -> tuple[Update, float]:
    """The last update and the greedy return after training on the workload itself."""
    options = BatchOptions(redraw=False, world=PodsOptions(drop_failures=True))
    *_, last = fused_ppo(config, BatchedPods(compiled, lanes, options=options))
    return last, greedy_return(compiled, params(last))


def test_a_trivial_world_is_solved_in_seconds() -> None:
    """A big and a small node, a small pod, then a big one: the small pod must leave the big node free."""
    compiled = cpu_world([4000, 1000], [1000, 4000])
    last, reached = train(compiled, FusedPPOConfig(steps=4_000, rollout_steps=16, threads=1))
    assert reached == pytest.approx(2.0)
    assert last.figures["return"] == pytest.approx(2.0, abs=0.1)


def best_by_exhaustion(nodes: list[int], pods: list[int]) -> float:
    """The most CPU that can be placed, in mean pods; a pod that fits somewhere must be placed."""
    best = 0
    for choices in itertools.product(range(len(nodes)), repeat=len(pods)):
        free, placed = list(nodes), 0
        for pod, choice in zip(pods, choices, strict=True):
            if max(free) < pod:
                continue
            if free[choice] < pod:
                placed = -1
                break
            free[choice] -= pod
            placed += pod
        best = max(best, placed)
    return best / (sum(pods) / len(pods))


def test_the_optimum_of_a_small_placement_problem_is_reached() -> None:
    nodes, pods = [4000, 5000, 6000], [2000, 3000, 1000, 3000, 4000, 2000]
    compiled = cpu_world(nodes, pods)
    optimum = best_by_exhaustion(nodes, pods)
    random = np.random.default_rng(0)
    options = BatchOptions(redraw=False, world=PodsOptions(drop_failures=True))
    batch, returns, total = BatchedPods(compiled, 1, options=options), [], 0.0
    seen = batch.reset()
    for _ in range(300):
        result = batch.step(random.choice(np.flatnonzero(seen.legal[0]), 1))
        seen, total = result.choices, total + float(result.rewards[0])
        if result.ended[0]:
            returns.append(total)
            total = 0.0
    assert np.mean(returns) < 0.95 * optimum  # chance alone does not find it
    _, reached = train(compiled, FusedPPOConfig(steps=60_000, rollout_steps=32, threads=2, entropy=0.02))
    assert reached == pytest.approx(optimum)


def run(config: FusedPPOConfig, saved: Arrays | None = None) -> list[Update]:
    return list(fused_ppo(config, short_batch(), saved=saved))


def same(update: Update, two: Update) -> bool:
    """Equal but for the time it took."""
    untimed = [
        {name: value for name, value in each.figures.items() if name != "steps_per_second"}
        for each in (update, two)
    ]
    return update.number == two.number and str(untimed[0]) == str(untimed[1])  # NaN is not equal to itself


def params(update: Update) -> F32:
    """What it has learned."""
    return update.tensors()["parameters"]


def test_same_seed_same_result_whatever_the_threads() -> None:
    runs = [run(replace(SHORT, threads=threads)) for threads in (1, 2, 3)]
    for other in runs[1:]:
        assert bits(params(other[-1])) == bits(params(runs[0][-1]))
        assert all(same(update, two) for update, two in zip(runs[0], other, strict=True))
    changed = run(replace(SHORT, seed=1))
    assert bits(params(changed[-1])) != bits(params(runs[0][-1]))


def test_a_resumed_run_equals_an_unbroken_one() -> None:
    whole = run(SHORT)
    saved: Arrays = {}
    for update in fused_ppo(SHORT, short_batch()):
        if update.number == 3:
            saved = update.state()
            break
    rest = run(SHORT, saved)
    assert [each.number for each in rest] == [4, 5, 6]
    assert all(same(one, two) for one, two in zip(whole[3:], rest, strict=True))
    assert bits(params(whole[-1])) == bits(params(rest[-1]))
    ours, theirs = whole[-1].state(), rest[-1].state()
    assert ours.keys() == theirs.keys()
    assert all(bits(ours[name]) == bits(theirs[name]) for name in ours)
    with pytest.raises(WorkError, match="does not fit"):
        FusedPPO(SHORT, short_batch()).restore({})


def test_a_loss_that_is_not_a_number_is_reported() -> None:
    learner = FusedPPO(SHORT, short_batch())
    learner.learn()
    saved = learner.capture()
    learner.params[5] = math.nan
    with pytest.raises(WorkError, match="not a number"):
        learner.learn()
    learner.restore(saved)
    learner.learn()
    assert math.isfinite(learner.aside["policy_loss"])
    learner.close()


def test_training_raises_the_return_on_gpu_packing() -> None:
    options = BatchOptions(world=PodsOptions(drop_failures=True))
    batch = BatchedPods(gpu_world(12), 16, horizon=160, options=options)
    config = FusedPPOConfig(steps=120_000, rollout_steps=64)
    returns = [each.figures["return"] for each in fused_ppo(config, batch)]
    known = [each for each in returns if not math.isnan(each)]
    third = len(known) // 3
    assert np.mean(known[-third:]) > np.mean(known[:third])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError):
        FusedPPOConfig(epochs=0)
    with pytest.raises(UsageError):
        FusedPPOConfig(discount=1.5)
    with pytest.raises(UsageError):
        FusedPPO(FusedPPOConfig(rollout_steps=1, minibatches=50), short_batch())
