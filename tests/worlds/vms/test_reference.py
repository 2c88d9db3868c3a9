"""The world of virtual machines does, step by step, what the plain Python one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from proreus.worlds.vms.model import DoubleRule, ServerShape
from proreus.worlds.vms.simulation.world import VmsOptions, VmsWorld, compile_trace, spane_length
from proreus.worlds.vms.state.servers import UNITS
from tests.oracles.vms_world import PlainRun
from tests.worlds.vms.strategies import Case, cases, make_trace


def assert_alike(world: VmsWorld, plain: PlainRun) -> None:
    """The same machine at hand, the same room, the same clock and figures."""
    figures = world.figures()
    assert (figures.placed, figures.rejected) == (plain.placed, plain.rejected)
    assert figures.wait == pytest.approx(plain.total_wait)
    assert figures.servers == len(plain.servers)
    observation = world.next_decision()
    assert (observation is None) == plain.over
    if observation is None:
        assert figures.full == plain.full
        return
    assert observation.now == plain.now
    assert observation.avail.tolist() == plain.avail()
    free = world.lanes.servers.free[0]
    for number, server in enumerate(plain.servers):
        assert [[int(amount * UNITS) for amount in node] for node in server.free] == free[number].tolist()


@settings(max_examples=150)
@given(cases())
def test_every_step_is_that_of_the_plain_world(case: Case) -> None:
    world = VmsWorld(compile_trace(case.trace, case.options.double), case.options)
    plain = PlainRun(case.trace, case.options, case.start, case.limit)
    world.begin(case.start, case.limit)
    assert_alike(world, plain)
    step = 0
    while not plain.over:
        place = case.choice(step, plain.avail())
        reward = world.apply(place)
        expected = plain.place(place)
        if case.options.full == "wait":
            assert reward == pytest.approx(expected)
        assert_alike(world, plain)
        step += 1


@settings(max_examples=40)
@given(cases())
def test_a_run_does_not_depend_on_the_one_before(case: Case) -> None:
    work = compile_trace(case.trace, case.options.double)
    used, fresh = VmsWorld(work, case.options), VmsWorld(work, case.options)
    for start in (0, len(case.trace) - 1, case.start):
        used.begin(start, case.limit)
        while (observation := used.next_decision()) is not None:
            used.apply(int(np.argmax(observation.avail)))
    used.begin(case.start, case.limit)
    fresh.begin(case.start, case.limit)
    while (observation := fresh.next_decision()) is not None:
        other = used.next_decision()
        assert other is not None and (other.obs == observation.obs).all() and other.now == observation.now
        assert used.apply(int(np.argmax(observation.avail))) == fresh.apply(int(np.argmax(observation.avail)))
    assert used.figures() == fresh.figures()


def test_the_length_of_a_run_is_counted_before_departures_as_in_spane() -> None:
    # The second machine would fit once the first has left, which it does before the second comes.
    trace = make_trace([(4.0, 2.0, 0, 1.0), (4.0, 2.0, 5, 1.0), (1.0, 1.0, 1, 1.0)])
    options = VmsOptions((ServerShape(1, 4.0, 8.0),), DoubleRule("cpu", ">=", 4.0), full="wait")
    tight = VmsOptions((ServerShape(1, 2.0, 8.0),), DoubleRule("cpu", ">=", 4.0), full="wait")
    assert spane_length(VmsWorld(compile_trace(trace, options.double), options), 0) == 3 + 40
    assert spane_length(VmsWorld(compile_trace(trace, tight.double), tight), 0) == 1 + 40


def test_the_cluster_grows_by_steps_once_the_threshold_is_passed() -> None:
    trace = make_trace([(1.0, 1.0, 1, np.inf)] * 40)
    options = VmsOptions((ServerShape(2, 4.0, 8.0),), growth=2, threshold=0.7, most_servers=5)
    world = VmsWorld(compile_trace(trace, options.double), options)
    world.begin()
    counts = []
    while (observation := world.next_decision()) is not None:
        world.apply(int(np.argmax(observation.avail)))
        counts.append(world.figures().servers)
    # 16 cores: the 12th passes 70 %; 32 cores: the 23rd; then the limit of five servers holds.
    assert counts[:11] == [2] * 11 and counts[11] == 4 and counts[21] == 4 and counts[22] == 5
    assert world.figures().placed == 40 and world.figures().servers == 5
