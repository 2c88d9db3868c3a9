"""A population in kernels of a GPU = its members on the host, played by Triton's interpreter."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton, whose interpreter plays the kernels, is not installed", allow_module_level=True)

import tests.interpreted  # noqa: F401, I001 (before the kernels)

from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.rules.columns import LINEAR, ORDERED
from proreus.worlds.pods.policies.rules.policy import RuleOptions, RulePolicy
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.training.device.fused import layout
from proreus.worlds.pods.training.device.fused.population import FusedPopulation
from proreus.worlds.pods.training.device.population import RATED
from tests.worlds.pods.test_population import BOUND, members


@pytest.mark.parametrize("drops", [False, True])
def test_kernels_rate_members_as_the_host_does(drops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of three nodes is the best of two blocks; the first member of `members` scores all alike."""
    monkeypatch.setattr(layout, "_NODE_BLOCK", 2)
    monkeypatch.setattr(layout, "_POD_BLOCK", 4)
    random, made = np.random.default_rng(2), generate("gpu", 8, nodes=3, pods=24)
    gap = (made.pods[-1].arrival - made.pods[0].arrival) / 24
    pods = tuple(replace(pod, duration=float(random.integers(1, 9)) * 10.0 * gap) for pod in made.pods)
    work, options = compile_workload(replace(made, pods=pods)), PodsOptions(drop_failures=drops)
    asked = members(gaps=drops)[:2]
    population = FusedPopulation([work], len(asked), options, "cpu")
    population.play(asked)
    policies = [RulePolicy(RuleOptions("m", LINEAR, ORDERED, linear=each)) for each in asked]
    outcomes = [simulate(work, policy, options).measures for policy in policies]
    assert outcomes[0]["gpu_allocation_peak"] != outcomes[1]["gpu_allocation_peak"], "any choice does"
    for measure in RATED:
        expected = [each[measure] for each in outcomes]
        np.testing.assert_allclose(population.measured(measure), expected, rtol=BOUND, atol=0.0)
