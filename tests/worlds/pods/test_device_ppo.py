"""PPO on a device: its rollouts are the host's, its advantages the textbook's, a saved learner goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from proreus.learning.returns import advantages
from proreus.learning.run import Task, learn
from proreus.learning.tensor_lanes import triton_support
from proreus.learning.tensor_lanes.advantages import choice_advantages
from proreus.learning.tensor_lanes.rollout import DevicePlayer, new_rollout
from proreus.workers.processes import Workers
from proreus.workers.threads import Threads
from proreus.worlds.pods.policies.scorer import initial_parameters, new_scorer_scratch
from proreus.worlds.pods.scenarios import parse_scenario
from proreus.worlds.pods.training import learners
from proreus.worlds.pods.training.batched_lanes import BatchedPods
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.ppo import DevicePPO, judging
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig
from proreus.worlds.pods.training.goal import ESConfig
from proreus.worlds.pods.training.rollout import new_rollout as new_host_rollout
from tests.learning.learning_cases import gpu_world, small_world

LANES, STEPS = 4, 12
_TRIED = 6
"""Updates until some lane is between two choices."""
CONFIG = FusedPPOConfig(
    steps=10_000, rollout_steps=STEPS, epochs=2, minibatches=2, device="cpu", worlds="device", threads=1
)


def learner(config: FusedPPOConfig = CONFIG, seed: int = 5) -> DevicePPO:
    return DevicePPO(config, DeviceLanes(gpu_world(), LANES, seed=seed, horizon=20))


@pytest.mark.parametrize("make", [gpu_world, small_world])
def test_a_network_plays_as_on_the_host(make: object) -> None:
    """The same draws from the same chances: the same rewards and ends, choice by choice."""
    compiled = gpu_world() if make is gpu_world else small_world(4, 30)
    params = initial_parameters(3)
    host = BatchedPods(compiled, LANES, seed=5, horizon=20)
    played = new_host_rollout(LANES, STEPS, host.nodes)
    threads = Threads(1)
    host.play(params, [played], [new_scorer_scratch(host.nodes)], threads)
    threads.close()
    lanes = DeviceLanes(compiled, LANES, seed=5, horizon=20)
    scale = torch.tensor([0.0, 1.0], dtype=torch.float64)
    there = DevicePlayer(lanes, judging(lanes, torch.from_numpy(params), scale), 2 * STEPS).play()
    compared = 0
    for e in range(LANES):
        rows = np.flatnonzero(there.chose[:, e].numpy())
        for k, (row, after) in enumerate(itertools.pairwise(rows)):
            if k == STEPS:
                break
            assert float(there.log_chance[row, e]) == pytest.approx(played.log_chance[e, k], abs=1e-5)
            assert float(there.value[row, e]) == pytest.approx(played.value[e, k], abs=1e-5)
            assert float(there.reward[after, e]) == pytest.approx(played.reward[e, k], rel=1e-12)
            assert bool(there.ended[after, e]) == played.ended[e, k]
            compared += 1
    assert compared > LANES * STEPS // 2


def test_advantages_are_those_of_the_choices_alone() -> None:
    lanes = DeviceLanes(gpu_world(), LANES, seed=5, horizon=20)
    rollout = new_rollout(lanes, STEPS, lanes.nodes + 2)
    random = np.random.default_rng(0)
    chose = random.random((STEPS + 2, LANES)) < 0.6
    chose[:, 0] = False  # a lane that never came to a choice
    rollout.chose.copy_(torch.from_numpy(chose))
    rollout.value.copy_(torch.from_numpy(random.normal(size=chose.shape)))
    rollout.reward.copy_(torch.from_numpy(np.where(chose, random.normal(size=chose.shape), 0.0)))
    rollout.ended.copy_(torch.from_numpy(chose & (random.random(chose.shape) < 0.2)))
    actual, learned = (each.numpy() for each in choice_advantages(rollout, (0.9, 0.8)))
    assert not learned[:, 0].any()
    for e in range(1, LANES):
        rows = np.flatnonzero(chose[:, e])
        values, after = rollout.value.numpy()[rows, e], rows[1:]
        expected = advantages(
            rollout.reward.numpy()[after, e][:, None],
            rollout.ended.numpy()[after, e][:, None],
            values[:, None],
            (0.9, 0.8),
        )[:, 0]
        np.testing.assert_array_equal(np.flatnonzero(learned[:, e]), rows[:-1])
        np.testing.assert_allclose(actual[rows[:-1], e], expected, rtol=1e-12)


def test_every_choice_is_learned_from_once() -> None:
    """A choice that is under way at the end of a rollout is in the next."""
    device = learner()
    learned = chosen = 0
    for _ in range(4):
        device.play()
        rollout = device._player.rollout
        chosen += int(rollout.chose[1 : STEPS + 1].sum())
        device.prepare_targets()
        learned += int(device._learned.sum())
    under_way = int((device._player.rollout.chose[1 : STEPS + 1].sum(0) > 0).sum())
    assert chosen - under_way <= learned <= chosen


def goes_on_as_saved(begin: Callable[[int], DevicePPO]) -> None:
    """begin: a learner over lanes of a seed. Saved while a lane is between choices: it is owed a reward."""
    whole, other = begin(5), begin(99)
    for _ in range(_TRIED):
        whole.learn()
        if not whole.lanes.seen.ready.all():
            break
    assert not whole.lanes.seen.ready.all(), "every lane stood at a choice: the law says nothing about others"
    saved = whole.capture()
    other.restore(saved)
    for name, column in other.lanes.capture().items():
        np.testing.assert_array_equal(column, saved[name], err_msg=name)
    ours, theirs = whole.learn(), other.learn()
    assert ours.tensors()["parameters"].tobytes() == theirs.tensors()["parameters"].tobytes()
    for figure in ours.figures.keys() - {"steps_per_second"}:
        np.testing.assert_equal(ours.figures[figure], theirs.figures[figure], err_msg=figure)
    for name, column in whole.lanes.capture().items():
        np.testing.assert_array_equal(column, other.lanes.capture()[name], err_msg=name)


def test_a_saved_learner_goes_on_as_if_nothing_had_happened() -> None:
    work = small_world(4, 30)
    goes_on_as_saved(lambda seed: DevicePPO(CONFIG, DeviceLanes(work, LANES, seed=seed, horizon=20)))


def test_an_update_stops_where_the_policy_has_moved_far_enough() -> None:
    never = learner(FusedPPOConfig(**{**vars(CONFIG), "target_kl": 0.0}))
    soon = learner(FusedPPOConfig(**{**vars(CONFIG), "target_kl": 1e-12}))
    never.learn()
    soon.learn()
    assert int(never._adam.steps) == CONFIG.epochs * CONFIG.minibatches
    assert int(soon._adam.steps) < int(never._adam.steps)
    assert int(soon._adam.count) == int(soon._adam.steps)


def test_train_plays_on_the_device_where_that_is_asked_for() -> None:
    scenario = parse_scenario("gpu@3", None)
    lessons = learners.PPOLessons(lanes=LANES, train_seeds=1, horizon=15)
    configs = (FusedPPOConfig(**{**vars(CONFIG), "steps": 2 * LANES * STEPS}), lessons)
    updates = list(learners.PPO.train([scenario], configs, Workers(processes=1), None))
    assert [update.number for update in updates] == [1, 2]
    assert "lanes.phase" in updates[-1].state(), "the lanes were the host's"


def test_a_run_says_at_its_start_how_worlds_play_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(learners, "uses_cuda", lambda device: device != "cpu")
    monkeypatch.setattr(triton_support, "why_no_kernels", lambda device: "Triton is not installed")
    scenario, lessons = parse_scenario("gpu@3", None), learners.PPOLessons(train_seeds=1)
    there = replace(CONFIG, device="auto", worlds="auto")
    task = Task((scenario,), (there, lessons), Workers(1), tmp_path, resume=False)
    with closing(learn(learners.PPO, task, lambda: True, lambda _: None)) as progress:
        assert next(progress).line == f"note: {triton_support.way_told()}"
    note = learners.PPO.note
    assert note is not None and note((scenario,), (CONFIG, lessons), Workers(1)) == ""
    assert note((scenario,), (replace(there, worlds="host"), lessons), Workers(1)) == ""
    note, search = learners.ES.note, ESConfig(train_seeds=1)
    assert note is not None and note((scenario,), (search,), Workers(1)) == ""
    assert note((scenario,), (replace(search, device="auto"),), Workers(1)) == triton_support.way_told()
