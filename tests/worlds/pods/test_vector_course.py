"""Episodes through the plugin: what a decision was worth, and that a memory learns what the vector hides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proreus.model.node import Node, Pace
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.vector.model import VectorScorer, load_vector_model, model_of
from proreus.worlds.pods.policies.vector.scorer import initial_parameters, part
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.training.vector.course import (
    Course,
    alone_seconds,
    drive,
    gains,
    placements,
    play,
    strongest_rule,
)
from proreus.worlds.pods.training.vector.train import (
    VectorRunConfig,
    empty_first,
    first_weights,
    train_vector,
)

TASK = PodSpec(Resources(500, GIB), gpu=GpuRequest(1, GPU_WHOLE), cpu_limit=600)


def a_node(name: str, speed: float, gpus: int = 4) -> Node:
    return Node(name, Resources(8000, 16 * GIB, pods=110), gpu_count=gpus, pace=Pace(speed, 6.0, 2.5, 2.0))


def always(node: int, nodes: int) -> VectorScorer:
    """A model that names one node whatever it is told."""
    parameters = initial_parameters(0)
    parameters[:] = 0.0
    part(parameters, "remembered")[0, 0] = part(parameters, "second")[0, 0] = 1.0
    part(parameters, "place")[0] = 50.0
    memory = np.zeros((nodes, 4), dtype=np.float32)
    memory[node, 0] = 1.0
    return VectorScorer(parameters, memory)


def test_a_reward_is_the_time_taken_and_the_time_others_were_held_up() -> None:
    tasks = tuple(Pod(f"t-{k}", TASK, 1.0, 135.0) for k in range(3))
    compiled = compile_workload(Workload("w", (a_node("a", 1.0), a_node("b", 1.0)), tasks, ticked=True))
    episode = play(always(1, 2), compiled, np.random.default_rng(0))
    assert episode.actions.tolist() == [1, 1, 1] and episode.dones.tolist() == [False, False, True]
    outcome = drive(always(1, 2), compiled, "likeliest")
    taken = [finish - arrival for _, _, _, arrival, _, finish, _ in outcome.log]
    alone = alone_seconds(tasks[0])
    held_up = np.array([0.0, 2.5, 5.0])  # by the second task one other, by the third two
    np.testing.assert_allclose(episode.rewards, -(np.array(taken) + 3.0 * held_up) / alone)
    workload = compile_workload(Workload("w", (a_node("a", 1.0),), tasks[:1], ticked=True))
    assert play(always(0, 1), workload, np.random.default_rng(0)).rewards.tolist() == [-1.0]


def test_a_masked_episode_stays_inside_the_mask() -> None:
    nodes = (a_node("none", 1.0, gpus=0), a_node("a", 1.0), a_node("b", 1.0))
    tasks = tuple(Pod(f"t-{k}", TASK, 1.0, 135.0) for k in range(6))
    compiled = compile_workload(Workload("w", nodes, tasks, ticked=True))
    episode = play(always(0, 3), compiled, np.random.default_rng(0), masked=True)
    assert episode.masks is not None and episode.masks[:, 0].sum() == 0
    assert episode.masks[np.arange(6), episode.actions].all() and episode.masks[:, 3:].sum() == 0
    assert placements(np.array([True, False])).tolist() == [True, False, False, False, False, False]
    assert all(row[1] == "done" for row in drive(always(0, 3), compiled, "masked").log)


def test_the_first_model_names_empty_nodes_before_used_ones() -> None:
    model = VectorScorer(empty_first(initial_parameters(3)))
    state = np.array([0.1, 0.1, 0.0, 0.0, 0.2, 0.1, 0.0, 0.0, 0.005, 1.0])
    chances = model.chances(state, 10, None)
    assert chances[1] == chances[3] > 20 * max(chances[0], chances[2])
    assert chances[4:].sum() < 0.01


@pytest.mark.parametrize("way", ["likeliest", "drawn", "masked"])
def test_gains_are_per_seed_and_relative_to_the_strongest_rule(way: str) -> None:
    course = Course(sizes=(5, 9))
    seeds = range(2000, 2003)
    model = model_of("vector-scorer", first_weights(course, 0).tensors, Path())
    measured = gains(model, course, seeds, way)  # type: ignore[arg-type]
    assert measured.shape == (3, 2) and (measured < 100.0).all()
    assert strongest_rule(course, seeds) in (
        "binpack",
        "fgd",
        "kube",
        "kube_plus",
        "round_robin",
        "worst_fit",
    )


def test_a_memory_learns_which_nodes_are_fast_though_the_vector_does_not_say(tmp_path: Path) -> None:
    nodes = tuple(a_node(f"n-{k}", 1.5 if k % 2 else 0.4) for k in range(10))
    config = VectorRunConfig(updates=24, episodes=8, validation_seeds=4, judge_every=24)
    reports = list(train_vector(tmp_path / "run", ("test", Course(nodes)), config, lambda: False))
    assert reports[-1].reward > reports[0].reward + 0.2
    model = load_vector_model(tmp_path / "run" / "best")
    state = np.zeros(22)
    state[-2:] = 0.005, 1.0
    chances = model.chances(state, 22, None)[:10]
    assert chances[1::2].sum() > 3.0 * chances[0::2].sum()


def test_training_is_the_same_for_a_seed_and_stops_when_asked(tmp_path: Path) -> None:
    config = VectorRunConfig(updates=5, episodes=2, validation_seeds=1, judge_every=2)
    for name in ("one", "two"):
        reports = list(train_vector(tmp_path / name, ("t", Course(sizes=(5,))), config, lambda: False))
        assert [report.update for report in reports] == [1, 2, 3, 4, 5]
    weights = [(tmp_path / name / "last" / "weights.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    stopped = list(train_vector(tmp_path / "three", ("t", Course(sizes=(5,))), config, lambda: True))
    assert [report.update for report in stopped] == [1] and stopped[0].validation is not None
