"""What a rule tells of its decision is the same whether it is asked for all at once or part by part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.arrays import F64, I64
from proreus.model.decision import Place
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.explanation import chosen_and_next
from proreus.worlds.pods.policies.rules import policy as binding
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import compile_workload
from tests.worlds.pods.strategies import FLAVOURS, workloads

RULES = ("kube", "kube_plus", "best_fit", "fgd", "learned", "first_fit")


@pytest.fixture(params=(0, 10**9), ids=("cached", "uncached"), scope="module", autouse=True)
def repeats(request: pytest.FixtureRequest) -> Iterator[None]:
    """With scores that are kept, also where classes hardly repeat, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "_CACHE_REPEATS", request.param)
        yield


def rule(name: str) -> RulePolicy:
    policy = make_policy(name, PolicyOptions(), 3)
    assert isinstance(policy, RulePolicy)
    return policy


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=25, deadline=None)
@given(workload=workloads(flavours=(*FLAVOURS, "affinity", "anti", "spread")))
def test_at_once_is_as_part_by_part(name: str, workload: Workload) -> None:
    world, once, apart = PodsWorld(compile_workload(workload)), rule(name), rule(name)
    while (observation := world.next_decision()) is not None:
        nodes, scores = apart.bids(observation)
        expected = apart.decide(observation)
        decision, looked_at, told = once.decide_with_bids(observation)
        assert decision == expected
        assert looked_at.tolist() == nodes.tolist()
        np.testing.assert_array_equal(told, scores)
        if isinstance(decision, Place) and len(looked_at):
            places = [place for place in chosen_and_next(looked_at, told, decision.node) if place >= 0]
            of = np.array(places)
            mine = once.factors(observation, looked_at, of)
            other = apart.factors(observation, nodes, of)
            assert mine.keys() == other.keys()
            for factor, values in mine.items():
                np.testing.assert_array_equal(values, other[factor])
        world.apply(decision)


def plain_chosen_and_next(nodes: I64, scores: F64, chosen: int) -> tuple[int, int]:
    """The same with NumPy."""
    mine = np.flatnonzero(nodes == chosen)
    others = np.where(nodes == chosen, -np.inf, scores)
    best = int(np.argmax(others)) if len(others) else -1
    return int(mine[0]) if len(mine) else -1, best if best >= 0 and others[best] != -np.inf else -1


SCORES = st.one_of(st.integers(-3, 3).map(float), st.sampled_from((np.inf, -np.inf, np.nan)))


@given(st.lists(SCORES, max_size=8), st.integers(0, 9))
def test_the_next_best_is_the_first_of_the_highest(drawn: list[float], chosen: int) -> None:
    nodes, scores = np.arange(len(drawn)) + 1, np.array(drawn, dtype=np.float64)
    assert chosen_and_next(nodes, scores, chosen) == plain_chosen_and_next(nodes, scores, chosen)
