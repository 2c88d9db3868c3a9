"""What each rule does, how long instances stay, what the network's rows say, and the goal of its search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from proreus.model.errors import IllegalDecision, UsageError
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.tensor_layout import size_of, tensors_of
from proreus.worlds.functions.encoding.rows import FEATURES, SIZES, encode, rows_for
from proreus.worlds.functions.model import (
    KEEPS,
    Demand,
    Function,
    FunctionsTerms,
    Keep,
    NodeKind,
    StartInstance,
    WaitForInstance,
)
from proreus.worlds.functions.play import play
from proreus.worlds.functions.policies.catalogue import KINDS, rule_policy
from proreus.worlds.functions.policies.weights import parts_of
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.compile import USUAL_KEEP, compile_demands
from proreus.worlds.functions.training.goal import FunctionsESConfig, FunctionsGoal, gains_over

SMALL = NodeKind(2, 1_000, 1_000, 1_000, 100, 100_000)
LARGE = NodeKind(1, 4_000, 4_000, 4_000, 400, 350_000)
CHEAP = NodeKind(1, 2_000, 1_000, 1_000, 100, 50_000)
TERMS = FunctionsTerms(nodes=(SMALL, LARGE, CHEAP))
"""Nodes 0 and 1 are small, 2 is large and dear, 3 is cheap."""
FUNCTION = Function("f", 500, 200, 400, 100, 10, 1, 1.0)


def run_with(arrivals: list[float], terms: FunctionsTerms = TERMS) -> FunctionsRun:
    """A run of one function, each request a second long, cold starts of two."""
    count = len(arrivals)
    demand = Demand(
        (FUNCTION,),
        np.array(arrivals),
        np.zeros(count, dtype=np.int32),
        np.ones(count),
        np.full(count, 2.0),
        max(arrivals) + 20.0,
    )
    return FunctionsRun(demand, compile_demands([demand], terms))


def places(name: str, arrivals: list[float]) -> list[int]:
    """Where a rule puts the instances of a run."""
    run, policy, nodes = run_with(arrivals), rule_policy(name, 3), []
    while (seen := run.next_decision()) is not None:
        decision = policy.decide(seen)
        if isinstance(decision, StartInstance):
            nodes.append(decision.node)
        run.apply(decision)
    return nodes


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("bpff", [0, 0, 1, 1, 2]),  # nodes have room for two, two, eight and four
        ("bpbf", [0, 0, 1, 1, 3]),  # half of a small node is more than any of the others
        ("least_connections", [0, 1, 2, 3, 0]),
        ("round_robin", [0, 1, 2, 3, 0]),
        ("cheapest", [3, 3, 3, 3, 0]),
        ("kube", [2, 2, 3, 2, 0]),  # 1.875, 1.75, 1.75, 1.625, then 1.5 of nodes 0 and 2
    ],
)
def test_where_instances_go(name: str, where: list[int]) -> None:
    assert places(name, [0.0] * 5) == where


def test_the_least_utilised_node_is_that_of_least_load() -> None:
    # While all start, the least reserved; at 2.5 s requests run on nodes 2 and 3, and none on node 0.
    assert places("least_utilised", [0.0, 0.1, 0.2, 2.5]) == [2, 2, 3, 0]


def test_ensure_fills_an_active_node_up_to_four_fifths() -> None:
    # The cheapest node first, of 2,000 milli: at most 1,600 in use, and each request uses 400.
    assert places("ensure", [0.0, 2.1, 2.2, 2.3, 2.4]) == [3, 3, 3, 3, 0]


def test_how_long_instances_stay() -> None:
    run = run_with([0.0, 10.0])
    run.apply(0)
    seen = run.next_decision()
    assert seen is not None and seen.asks == "keep"
    assert rule_policy("bpff").decide(seen) == Keep(USUAL_KEEP)
    assert rule_policy("bpff@12.5").decide(seen) == Keep(12.5)
    assert rule_policy("bpff@histogram").decide(seen) == Keep(USUAL_KEEP), "too few idle times are known"
    assert rule_policy("warm_cost").decide(seen).seconds in KEEPS  # type: ignore[union-attr]
    for wrong in ("bpff@", "bpff@x", "bpff@-1", "bpff@1e9", "bpff@nan"):
        if wrong != "bpff@":
            with pytest.raises(UsageError, match="histogram"):
                rule_policy(wrong)


def test_the_histogram_keeps_up_to_the_longest_usual_gap() -> None:
    """Requests every seven seconds, so that instances idle for four to six."""
    run, policy, found = run_with([7.0 * place for place in range(12)]), rule_policy("bpff@histogram"), []
    while (seen := run.next_decision()) is not None:
        decision = policy.decide(seen)
        if isinstance(decision, Keep):
            found.append(decision.seconds)
        run.apply(decision)
    assert found[0] == USUAL_KEEP and found[-1] == pytest.approx(1.1 * 8.0)


@pytest.mark.parametrize("name", KINDS)
def test_reasons_change_nothing(name: str) -> None:
    run, policy = run_with([0.0, 0.5, 4.0]), rule_policy(name, 1)
    while (seen := run.next_decision()) is not None:
        why = policy.explain(seen)
        assert why.decision == policy.explain(seen).decision
        decision = policy.decide(seen)
        assert decision == why.decision and why.told and why.subject
        run.apply(decision)


def test_rows_say_what_a_place_means() -> None:
    run = run_with([0.0, 0.5])
    run.apply(StartInstance(0))
    count = rows_for(TERMS.count)
    rows, context = np.zeros((count, SIZES[0]), np.float32), np.zeros(SIZES[1], np.float32)
    legal = np.zeros(count, np.uint8)
    encode(run.work, run.runs, 0, rows, context, legal)
    named = {name: rows[: TERMS.count, place] for place, name in enumerate(FEATURES)}
    full = 10.0 / 0.6  # the price of all nodes is 0.6 dollars
    np.testing.assert_allclose(
        named["share of the price that becomes due"], [0.0, 0.1 * full, 0.35 * full, 0.05 * full], rtol=1e-6
    )
    np.testing.assert_allclose(named["CPU reserved"], [1.0, 0.5, 0.125, 0.25])
    assert legal.tolist() == [1, 1, 1, 1, 1] + [0] * len(KEEPS), "there is an instance to wait for"
    while (seen := run.next_decision()) is not None and seen.asks == "place":
        run.apply(StartInstance(1))
    encode(run.work, run.runs, 0, rows, context, legal)
    assert legal.tolist() == [0] * 5 + [1] * len(KEEPS)
    chance = rows[5:, FEATURES.index("probability that a request comes in time")]
    assert (np.diff(chance) > 0).all() and chance[0] == 0.0


def test_a_queue_that_nobody_serves_is_no_choice() -> None:
    run = run_with([0.0, 0.5])
    seen = run.next_decision()
    assert seen is not None and not seen.action_mask()[TERMS.count]
    with pytest.raises(IllegalDecision, match="no instance to wait for"):
        run.apply(WaitForInstance())
    run.apply(StartInstance(0))
    run.apply(WaitForInstance())


def test_the_search_begins_as_the_rule() -> None:
    scenario = FunctionsScenario("busy", seconds=20.0, functions=6)
    parts = parts_of(3)
    tensors = tensors_of(parts, np.zeros(size_of(parts)))
    network = replace(rule_policy("warm_cost"), bidder=bidder_of("actor", tensors, SIZES))
    for seed in range(3):
        load = scenario.load(seed)
        found = [play(scenario, load, one, seed).outcome.rows for one in (rule_policy("warm_cost"), network)]
        assert found[0] == found[1]


def test_a_gain_counts_what_was_bought_with_the_other_measure() -> None:
    rule = np.array([[50.0, 2.0, 1.0], [30.0, 2.0, 1.0]])
    assert gains_over(rule, rule, 1.0).tolist() == [0.0, 0.0]
    better = rule * (0.9, 1.0, 0.9)
    assert gains_over(rule, better, 1.0).mean() == pytest.approx(10.0)
    bought = rule * (0.9, 1.05, 0.8)
    assert gains_over(rule, bought, 1.0).mean() == pytest.approx(10.0 - 5.0)


def test_a_goal_is_the_same_for_the_same_draw() -> None:
    scenario = FunctionsScenario("busy", seconds=10.0, functions=4)
    config = FunctionsESConfig(runs=1, validation_runs=2, confirm_runs=2, population=4)
    with ThreadPoolExecutor(2) as pool:
        goal = FunctionsGoal([scenario], config, pool)
        drawn = goal.draw(np.random.default_rng(0))
        members = [goal.start, goal.start + 0.5]
        first, counts = goal.fitness(members, drawn)
        assert first == goal.fitness(members, drawn)[0] and counts == {"runs": 2}
        assert list(goal.validate(goal.start)) == ["busy"]
        assert goal.confirm(goal.tensors(goal.start))["busy"].shape == (2,)
