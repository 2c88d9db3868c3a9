"""Laws of the world `functions`, and the plain world that the kernels must agree with to the last digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.functions.bench.plain import PlainRun
from proreus.worlds.functions.model import KEEPS, Demand
from proreus.worlds.functions.simulation.outcome import active_seconds, objective_of
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.columns import (
    CAME,
    COLD,
    CPU,
    DONE,
    DROPPED,
    GIVEN_UP,
    HEAPED,
    HELD,
    HOLDS,
    MEMORY,
    MICRO_HOURS,
    NET,
    NOW,
    PAID,
    PLACES,
    PRICE,
    QUEUED,
    RFRT,
    SERVED,
    SHARE,
    STARTS,
)
from proreus.worlds.functions.state.compile import compile_demands
from tests.worlds.functions.strategies import TERMS, demands

CHOICES = st.lists(st.integers(0, 10**6), min_size=400, max_size=400)


def run_of(demand: Demand, places_left: int | None = None) -> FunctionsRun:
    """A run on three small nodes; places_left: starts before instances move up, see `state.spares`."""
    run = FunctionsRun(demand, compile_demands([demand], TERMS))
    if places_left is not None:
        run.runs.tally[0, PLACES] = run.runs.crew.shape[1] - places_left
    return run


def step_plain(plain: PlainRun, action: int) -> None:
    """The same action in the plain world."""
    nodes = plain.price.size
    if action < nodes:
        plain.place(action)
    elif action == nodes:
        plain.wait()
    else:
        plain.keep(KEEPS[action - nodes - 1])


def drawn(mask: Any, choices: list[int], place: int) -> int:
    """A legal action."""
    legal = np.flatnonzero(mask)
    return int(legal[choices[place % len(choices)] % legal.size])


@settings(max_examples=150, deadline=None)
@given(demands(), CHOICES, st.one_of(st.none(), st.integers(0, 8)))
def test_kernels_agree_with_the_plain_world(
    demand: Demand, choices: list[int], places_left: int | None
) -> None:
    run, plain = run_of(demand, places_left), PlainRun(demand, TERMS)
    place = 0
    while (seen := run.next_decision()) is not None:
        assert (seen.asks, seen.number, seen.now) == (plain.asks, plain.subject, plain.now)
        mask = seen.action_mask()
        if seen.asks == "place":
            assert mask[: seen.nodes].tolist() == [plain.fits(node) for node in range(seen.nodes)]
        else:
            assert plain.idle is not None and seen.node == plain.idle.node
        action = drawn(mask, choices, place)
        run.apply(action)
        step_plain(plain, action)
        place += 1
    assert plain.asks == "over"
    tally, figure = run.runs.tally[0], run.runs.figure[0]
    assert (tally[SERVED], tally[DROPPED], tally[COLD], tally[STARTS]) == (
        plain.served,
        plain.dropped,
        plain.cold,
        plain.starts,
    )
    assert (figure[NOW], figure[PAID], figure[RFRT], figure[SHARE]) == (
        plain.now,
        plain.paid,
        plain.rfrt,
        plain.share,
    )
    done = run.runs.status[0] == DONE
    np.testing.assert_array_equal(run.runs.ended[0][done], plain.ended[done])
    np.testing.assert_array_equal(run.runs.server[0][done], plain.server[done])
    assert [fate == "served" for fate in plain.fate] == done.tolist()


@settings(max_examples=60, deadline=None)
@given(demands(), CHOICES)
def test_laws_hold_after_every_decision(demand: Demand, choices: list[int]) -> None:
    run = run_of(demand)
    work, runs = run.work, run.runs
    place, worth = 0, 0.0
    while (seen := run.next_decision()) is not None:
        columns, tally = runs.node[0], runs.tally[0]
        assert (columns[:, [CPU, MEMORY]] <= work.capacity[:, [CPU, MEMORY]]).all(), "capacity"
        assert (columns >= 0).all()
        there = tally[SERVED] + tally[DROPPED] + tally[QUEUED] + tally[HELD] + tally[HEAPED]
        assert there == tally[CAME], "every request is served, dropped, waits or runs"
        assert tally[PRICE] == work.price[columns[:, HOLDS] > 0].sum(), "whoever holds instances is paid"
        paid = float((active_seconds(runs) * work.price).sum())
        assert runs.figure[0, PAID] == pytest.approx(paid), "cost is active time x price"
        worth += run.apply(drawn(seen.action_mask(), choices, place))
        place += 1
    assert runs.tally[0, CAME] == len(demand) == runs.tally[0, SERVED] + runs.tally[0, DROPPED]
    assert set(runs.status[0].tolist()) <= {DONE, GIVEN_UP}
    paid = float((active_seconds(runs) * work.price).sum())
    assert run.outcome().measures["cost"] == pytest.approx(paid / MICRO_HOURS)
    before_the_first = 0.0 if place else objective_of(work, runs)
    assert objective_of(work, runs) == pytest.approx(before_the_first - worth, abs=1e-9)
    assert (runs.node[0, :, NET] == 0).all(), "nothing runs any more"


def test_a_stretch_is_that_of_the_scarcest_resource() -> None:
    """Two requests that use 80 % of a node's CPU each: the second takes 1.6 times as long."""
    from proreus.worlds.functions.model import Function, FunctionsTerms, NodeKind

    function = Function("f", 100, 100, 800, 100, 10, 2, 1.0)
    terms = FunctionsTerms(nodes=(NodeKind(1, 1_000, 1_000, 1_000, 100, 100_000),))
    demand = Demand(
        (function,), np.zeros(2), np.zeros(2, dtype=np.int32), np.ones(2), np.array([0.5, 9.0]), 5.0
    )
    run = FunctionsRun(demand, compile_demands([demand], terms))
    run.apply(0)
    while run.next_decision() is not None:
        run.apply(2)
    assert run.runs.ended[0].tolist() == [1.5, pytest.approx(0.5 + 1.6)]


def test_an_instance_is_given_up_when_its_time_is_over_and_the_node_is_paid_no_longer() -> None:
    from proreus.worlds.functions.model import Function, FunctionsTerms, Keep, NodeKind, StartInstance

    function = Function("f", 100, 100, 100, 0, 0, 1, 1.0)
    terms = FunctionsTerms(nodes=(NodeKind(1, 1_000, 1_000, 1_000, 100, 3_600_000_000),))
    demand = Demand(
        (function,),
        np.array([1.0, 20.0]),
        np.zeros(2, dtype=np.int32),
        np.ones(2),
        np.array([2.0, 2.0]),
        30.0,
    )
    run = FunctionsRun(demand, compile_demands([demand], terms))
    for keep in (5.0, 0.0):
        run.apply(StartInstance(0))
        run.apply(Keep(keep))
    assert run.next_decision() is None
    # 2 s of cold start, 1 s of work and 5 s of idling; then 2 s and 1 s, at a dollar a second.
    assert run.outcome().measures["cost"] == pytest.approx(8.0 + 3.0)
    assert run.outcome().measures["cold"] == 100.0
