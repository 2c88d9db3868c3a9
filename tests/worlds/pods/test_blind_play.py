"""On nodes in an unknown order, who sees neither GPUs nor speed cannot come near binpack."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.catalogue import load
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.vector.plugin import VolcanoPlugin
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from tests.oracles.blind_play import (
    JOBS,
    SPEED_OF_GPUS,
    TASKS,
    BestPlay,
    BlindPlayer,
    Job,
    drawn_cluster,
    held_up,
    node_of,
    pod_of,
)
from tests.real_data import real_data

BINPACK = 48.063
"""Seconds, on the simulator's file and on every order of its nodes."""
QUICK_8, SLOW_4 = 11, 8  # kinds of nodes, with 32 cores
NODES = 500


@lru_cache(maxsize=2)
def best_play(*, told: bool) -> BestPlay:
    """Worked out once."""
    return BestPlay(told=told)


def on_one_node(job: Job, kind: int, count: int) -> float:
    """Seconds that so many tasks take in all, placed at once on one node."""
    pods = tuple(pod_of(job, str(k)) for k in range(count))
    work = Workload("one", (node_of(kind),), pods, ticked=True)
    measures = simulate(compile_workload(work), make_policy("first_fit")).measures
    return count * float(measures["jct_mean"])


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.gpus} GPUs")
def test_what_the_bound_takes_for_granted_is_what_the_simulator_does(job: Job) -> None:
    assert on_one_node(job, QUICK_8, 1) == job.seconds
    assert on_one_node(job, SLOW_4, 1) == job.seconds + job.slower
    for count in range(2, 8 // job.gpus + 1):
        assert on_one_node(job, QUICK_8, count) == count * job.seconds + held_up(count)


def test_no_play_that_learns_by_refusals_comes_within_four_percent_of_binpack() -> None:
    assert best_play(told=False).mean_seconds == pytest.approx(50.12, abs=0.005)
    assert best_play(told=False).mean_seconds > 1.04 * BINPACK


def test_who_is_told_the_kind_of_every_node_that_took_a_task_is_behind_binpack_too() -> None:
    assert best_play(told=True).mean_seconds == pytest.approx(49.02, abs=0.005)


def test_without_a_refusal_and_with_a_node_for_each_task_chance_would_be_enough() -> None:
    by_chance = sum(job.tasks * (job.seconds + job.taken_slow * job.slower) for job in JOBS) / TASKS
    assert by_chance == pytest.approx(47.62, abs=0.005)


def test_the_best_play_in_the_simulator_is_no_better_than_the_bound_and_little_worse() -> None:
    cases = [compile_workload(drawn_cluster(NODES, seed)) for seed in range(4)]
    assert {node.gpu_count for node in cases[0].workload.nodes} == set(SPEED_OF_GPUS)
    assert 0.0 < played(cases) - best_play(told=False).mean_seconds < 0.75


def played(cases: list[Compiled]) -> float:
    """Mean completion of the best play through the simulated plugin, over these cases."""
    name = []
    for seed, case in enumerate(cases):
        player = BlindPlayer(best_play(told=False), len(case.workload.nodes), seed)
        name.append(float(simulate(case, VolcanoPlugin("blind", player)).measures["jct_mean"]))
    return float(np.mean(name))


@pytest.mark.golden
@pytest.mark.parametrize(("variant", "seconds"), [("reordered", 50.81), ("mixed", 50.62)])
def test_the_best_play_on_the_simulators_nodes_in_another_order(variant: str, seconds: float) -> None:
    data = real_data("k8ssim")
    cases = [compile_workload(load(f"k8ssim-variant/{variant}", data, seed=seed)) for seed in range(10)]
    assert played(cases) == pytest.approx(seconds, abs=0.005)
