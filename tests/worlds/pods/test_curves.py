"""The curves of a run: right at every sample, and never longer than their buffer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.model.workload import Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.simulation.columns import HEAT_EVERY, SAMPLE_ROWS
from proreus.worlds.pods.state.compile import compile_workload
from tests.oracles.kube_builders import node, pod


@pytest.mark.parametrize(("count", "stride"), [(5, 1), (512, 1), (513, 2), (1024, 2), (1025, 4), (3000, 8)])
def test_thinned_curves_are_regular_and_true(count: int, stride: int) -> None:
    """Pod i comes at second i and stays: at every sample, whatever was thinned out, i + 1 pods run."""
    machine = node("n0", cpu=count, pods=count, gpus=4, gpu_model="T4")
    pods = tuple(pod(f"p{i}", cpu=1, gpu=(1, 1), arrival=float(i)) for i in range(count))
    outcome = simulate(compile_workload(Workload("staying", (machine,), pods)), make_policy("first_fit"))
    curves = outcome.curves
    assert curves.time.tolist() == list(range(0, count, stride))
    assert len(curves.time) <= SAMPLE_ROWS
    np.testing.assert_array_equal(curves.running, curves.time + 1)
    np.testing.assert_array_equal(curves.waiting, np.zeros_like(curves.time))
    np.testing.assert_allclose(curves.allocation["cpu"], 100.0 * (curves.time + 1) / count)
    np.testing.assert_allclose(curves.arrived, 100.0 * (curves.time + 1) / 4000)
    np.testing.assert_allclose(curves.allocation["gpu"], curves.arrived)
    np.testing.assert_array_equal(outcome.heat_times, curves.time[::HEAT_EVERY])
    np.testing.assert_allclose(outcome.heat[:, 0], (outcome.heat_times + 1) / count, rtol=1e-6)


def test_waiting_pods_are_counted_and_departures_are_seen() -> None:
    """Three pods that each need the whole node for two seconds: a sample per decision and per departure."""
    pods = tuple(replace(pod(f"p{i}", cpu=10_000), duration=2.0) for i in range(3))
    workload = Workload("one by one", (node("n0"),), pods)
    curves = simulate(compile_workload(workload), make_policy("first_fit")).curves
    # Placed, pooled, pooled; gone, placed, pooled; gone, placed; gone.
    assert curves.time.tolist() == [0, 0, 0, 2, 2, 2, 4, 4, 6]
    assert curves.running.tolist() == [1, 1, 1, 0, 1, 1, 0, 1, 0]
    assert curves.waiting.tolist() == [2, 2, 2, 2, 1, 1, 1, 0, 0]
