"""A population of pods' scorers on a device = its members on the host: same choices, same measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.kernels.arrays import F64
from proreus.learning.es import evolve
from proreus.model.errors import UsageError
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.rules.columns import LINEAR, ORDERED
from proreus.worlds.pods.policies.rules.policy import LinearScorer, RuleOptions, RulePolicy
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.training import learners
from proreus.worlds.pods.training.device import population as device_population
from proreus.worlds.pods.training.device.population import RATED, PodsPopulation, PopulationRater
from proreus.worlds.pods.training.evaluation import compiled_workload
from proreus.worlds.pods.training.goal import (
    ESConfig,
    PodsGoal,
    as_scorer,
    run_candidate,
    starting_point,
)
from tests.inline_pool import InlinePool
from tests.tensor_laws import Elsewhere, hollow

FULL = PodScenario(Generated("gpu", 5), PodsOptions(drop_failures=True))
QUEUED = replace(FULL, options=PodsOptions())
USUAL = np.zeros(4)
# A mean over time is a sum of products: added in the same order, divided once.
BOUND = 1e-12


def members(gaps: bool) -> list[LinearScorer]:
    """The first scores all nodes alike: every choice of it is a tie."""
    random = np.random.default_rng(1)
    start = starting_point(ESConfig(), compiled_workload(FULL, 0))
    worth = random.normal(size=LEVELS) if gaps else None
    vectors = [np.zeros(start.size), start, *(start + random.normal(size=start.size) for _ in range(2))]
    return [as_scorer(vector, USUAL, worth) for vector in vectors]


@pytest.mark.parametrize("gaps", [False, True])
def test_a_population_is_its_members(gaps: bool) -> None:
    measure, cells = "gpu_allocation_peak", [(FULL, 3), (QUEUED, 4), (FULL, 5)]
    asked, rater = members(gaps), PopulationRater("cpu", measure)
    for scorers in (asked, asked[::-1]):  # the second time in what the first was played in
        expected = [[run_candidate(*cell, scorer, measure) for cell in cells] for scorer in scorers]
        np.testing.assert_allclose(rater(scorers, cells), expected, rtol=BOUND, atol=0.0)
    assert len({tuple(row) for row in expected}) > 2, "the members hardly differ"


@pytest.mark.parametrize("drops", [False, True])
def test_pods_that_leave_and_wait(drops: bool) -> None:
    """Several leave between two choices, and those that wait are placed then."""
    random, made = np.random.default_rng(2), generate("gpu", 1, nodes=3, pods=60)
    gap = (made.pods[-1].arrival - made.pods[0].arrival) / 60
    pods = tuple(replace(pod, duration=float(random.integers(1, 9)) * 10.0 * gap) for pod in made.pods)
    work, options = compile_workload(replace(made, pods=pods)), PodsOptions(drop_failures=drops)
    asked = members(gaps=False)
    population = PodsPopulation([work], len(asked), options, "cpu")
    policies = [RulePolicy(RuleOptions("m", LINEAR, ORDERED, linear=each)) for each in asked]
    outcomes = [simulate(work, policy, options).measures for policy in policies]
    assert drops or min(each["wait_mean"] for each in outcomes) > 0.0, "nobody waited"
    population.play(asked)
    for measure in RATED:
        expected = [each[measure] for each in outcomes]
        np.testing.assert_allclose(population.measured(measure), expected, rtol=BOUND, atol=0.0)


def test_a_search_goes_the_same_way_on_a_device() -> None:
    config = ESConfig(generations=2, population=4, train_seeds=3, validation_seeds=2, evaluate_every=2)
    one = list(evolve(config, PodsGoal(config, (FULL,), InlinePool())))
    rater = PopulationRater("cpu", config.measure)
    two = list(evolve(config, PodsGoal(config, (FULL,), InlinePool(), rater)))
    for mine, theirs in zip(one, two, strict=True):
        assert mine.fitness == theirs.fitness and mine.validation == theirs.validation
        np.testing.assert_array_equal(mine.mean, theirs.mean)


def test_where_memory_is_short_what_was_asked_for_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Played(PodsPopulation):
        def __init__(self, workloads: Sequence[Compiled], *_: object) -> None:
            made.append(workloads[0].workload.name)

        def rate(self, members: Sequence[LinearScorer], measure: str) -> F64:
            return np.zeros((len(members), 1))

    short = [False]
    monkeypatch.setattr(device_population, "population_on", lambda device: Played)
    monkeypatch.setattr(PopulationRater, "_is_short", lambda _: short.pop() if len(short) > 1 else short[0])
    rater, asked = PopulationRater("cpu", "gpu_allocation"), members(gaps=False)

    def news(*seeds: int) -> int:
        """How many of them had to be made."""
        before = len(made)
        for seed in seeds:
            rater(asked, [(FULL, seed)])
        return len(made) - before

    assert news(1, 2, 3) == 3 and news(2, 3, 1) == 0
    short.append(True)  # once, and what goes is enough
    assert news(4) == 1
    assert news(3, 1, 4) == 0, "more went than had to, or what was asked for just now"
    assert news(2) == 1


def test_memory_that_the_allocator_keeps_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"now": 10}
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.update(now=60))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free["now"], 100))
    assert not PopulationRater("cuda", "gpu_allocation")._is_short()
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.update(now=40))
    assert PopulationRater("cuda", "gpu_allocation")._is_short()


def test_what_a_device_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learners.rater_of(ESConfig(), (FULL,)) is None
    monkeypatch.setattr(learners, "uses_cuda", lambda device: True)
    assert isinstance(learners.rater_of(ESConfig(device="auto"), (FULL,)), PopulationRater)
    small = PodScenario(Generated("small", 5))
    for config, scenario, what in (
        (ESConfig(device="cuda", measure="wait_mean"), FULL, "wait_mean"),
        (ESConfig(device="cuda"), small, "preempt others"),
    ):
        with pytest.raises(UsageError, match=f"{what}.*--device cpu"):
            learners.rater_of(config, (scenario,))
        assert learners.rater_of(replace(config, device="auto"), (scenario,)) is None


def test_a_step_never_looks_at_a_value() -> None:
    there = PodsPopulation([compiled_workload(FULL, 3)], 4, FULL.options, "cpu")
    there._weights = torch.from_numpy(np.array([each.weights for each in members(gaps=False)]))
    there._gaps = torch.zeros(LEVELS)
    for name, value in list(vars(there).items()):
        if name != "_workloads":
            setattr(there, name, hollow(value))
    with Elsewhere() as elsewhere:
        there.step()
    assert elsewhere.operations == set()
