"""The k8s simulator's committed results: 350 tasks on 500 nodes.

binpack: mean 48.06 s, makespan 54 s. Its own PPO: mean 59.29 s, makespan 86 s.
"""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.catalogue import load
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.vector.model import SHIPPED, load_vector_model
from proreus.worlds.pods.policies.vector.plugin import VolcanoPlugin
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.state.compile import compile_workload
from tests.real_data import real_data

TOLERANCE = 0.02


def large() -> Workload:
    """The 350 tasks on 500 nodes."""
    return load("k8ssim/large", real_data("k8ssim"), seed=0)


def committed_times(name: str) -> Counter[float]:
    """How often each task time occurs in a committed result."""
    with (real_data("k8ssim") / "k8ssim" / name).open(newline="") as file:
        return Counter(float(row["Pod_total_time"]) for row in csv.DictReader(file))


def task_times(outcome: PodsOutcome) -> Counter[float]:
    """The same of a run of ours."""
    return Counter(finish - arrival for _, _, _, arrival, _, finish, _ in outcome.log)


@pytest.mark.golden
def test_binpack_takes_as_long_as_in_the_simulator() -> None:
    workload = large()
    outcome = simulate(compile_workload(workload), make_policy("binpack"))
    assert len(workload.pods) == 350
    assert outcome.measures["jct_mean"] == pytest.approx(48.06, rel=TOLERANCE)
    assert outcome.measures["makespan"] == pytest.approx(54.0, rel=TOLERANCE)


@pytest.mark.golden
def test_binpack_gives_the_simulators_distribution_of_task_times() -> None:
    """Node names among equal nodes are random in the original; how long tasks take is not."""
    outcome = simulate(compile_workload(large()), make_policy("binpack"))
    assert task_times(outcome) == committed_times("2025-09-08-17-52-11-GANG_BINPACK.csv")


@pytest.mark.golden
def test_a_constant_answer_gives_the_simulators_own_ppo_result() -> None:
    """The committed PPO run is that of a service which names node 46 for every task: 59.29 s and 86 s."""
    outcome = simulate(compile_workload(large()), VolcanoPlugin("constant", lambda state: 46))
    assert outcome.measures["jct_mean"] == pytest.approx(59.29, abs=0.005)
    assert outcome.measures["makespan"] == 86.0
    assert task_times(outcome) == committed_times("2025-09-08-17-53-09-PPO.csv")


@pytest.mark.golden
def test_the_shipped_model_finishes_no_later_than_binpack() -> None:
    """Trained on the same nodes with generated jobs; these jobs it has never seen."""
    model = load_vector_model(SHIPPED["vector-k8ssim"])
    plugin = VolcanoPlugin("ppo", lambda state: model.decide(state, 1002, None, -1.0)[0])
    outcome = simulate(compile_workload(large()), plugin)
    assert len(outcome.log) == 350 and all(row[1] == "done" for row in outcome.log)
    assert outcome.measures["jct_mean"] <= 48.06
    assert outcome.measures["makespan"] <= 54.0
