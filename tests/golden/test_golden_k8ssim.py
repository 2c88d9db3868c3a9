"""The k8s simulator's committed result: 350 tasks on 500 nodes with binpack, mean 48.06 s, makespan 54 s."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from proreus.cluster.compile import compile_workload
from proreus.compare.simulate import simulate
from proreus.policies.catalogue import make_policy
from proreus.traces.catalogue import load
from real_data import real_data

TOLERANCE = 0.02


@pytest.mark.golden
def test_binpack_takes_as_long_as_in_the_simulator() -> None:
    workload = load("k8ssim/large", real_data("k8ssim"), seed=0)
    outcome = simulate(compile_workload(workload), make_policy("binpack"))
    assert len(workload.pods) == 350
    assert outcome.measures["jct_mean"] == pytest.approx(48.06, rel=TOLERANCE)
    assert outcome.measures["makespan"] == pytest.approx(54.0, rel=TOLERANCE)


@pytest.mark.golden
def test_binpack_gives_the_simulators_distribution_of_task_times() -> None:
    """Node names among equal nodes are random in the original; how long tasks take is not."""
    data = real_data("k8ssim")
    with (data / "k8ssim/2025-09-08-17-52-11-GANG_BINPACK.csv").open(newline="") as file:
        expected = Counter(float(row["Pod_total_time"]) for row in csv.DictReader(file))
    outcome = simulate(compile_workload(load("k8ssim/large", data, seed=0)), make_policy("binpack"))
    assert Counter(finish - arrival for _, _, _, arrival, _, finish, _ in outcome.log) == expected
