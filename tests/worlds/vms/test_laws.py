"""Laws of the world of virtual machines that hold whatever a policy does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.model import ServerShape
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, make_vm_policy
from proreus.worlds.vms.simulation.columns import FIRST, MACHINE
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, VmsWorld, compile_trace, with_servers
from proreus.worlds.vms.state.servers import NOWHERE, UNITS, give_back
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings
from tests.worlds.vms.strategies import Case, cases

RULES = sorted(set(VM_POLICIES.rules))


def played(case: Case) -> Iterator[VmsWorld]:
    """The world of a case at each of its decisions, the choices made at random, and at the end."""
    world = VmsWorld(compile_trace(case.trace, case.options.double), case.options)
    world.begin(case.start, case.limit)
    step = 0
    while (observation := world.next_decision()) is not None:
        yield world
        world.apply(case.choice(step, observation.avail.tolist()))
        step += 1
    yield world


def running(world: VmsWorld) -> list[tuple[int, int]]:
    """(machine, place) of all that run."""
    where, tally = world.lanes.where[0], world.lanes.tally[0]
    known = range(min(int(tally[MACHINE] - tally[FIRST]) + 1, where.size))
    return [(int(tally[FIRST]) + place, int(where[place])) for place in known if where[place] != NOWHERE]


@settings(max_examples=100)
@given(cases())
def test_what_is_free_and_what_runs_add_up_on_every_numa_node(case: Case) -> None:
    for world in played(case):
        servers, flavours = world.lanes.servers, world.work.flavours
        taken = np.zeros_like(servers.capacity)
        for machine, place in running(world):
            flavour = world.work.flavour[machine]
            nodes = (0, 1) if flavours.double[flavour] else (place % 2,)
            for numa in nodes:
                taken[place // 2, numa] += flavours.need[:, flavour]
        opened = world.figures().servers
        assert (servers.free[0, :opened] == servers.capacity[:opened] - taken[:opened]).all()
        assert (servers.free[0] >= 0).all() and not servers.free[0, opened:].any()
        assert not taken[opened:].any()
        np.testing.assert_allclose(servers.shown[0], servers.free[0] / UNITS, rtol=1e-6)


@settings(max_examples=100)
@given(cases())
def test_the_mask_is_what_a_look_at_every_server_says(case: Case) -> None:
    for world in played(case):
        servers, flavours = world.lanes.servers, world.work.flavours
        for flavour in range(flavours.double.size):
            cpu, mem = flavours.need[:, flavour]
            node = (servers.free[0, :, :, 0] >= cpu) & (servers.free[0, :, :, 1] >= mem)
            if flavours.double[flavour]:
                node = np.repeat(node.all(axis=1)[:, None], 2, axis=1)
            assert servers.fits[0, flavour, : node.size].tolist() == node.ravel().astype(int).tolist()
            assert servers.room[0, flavour] == node.sum()


@settings(max_examples=60)
@given(cases())
def test_when_all_have_left_the_cluster_is_as_at_the_start(case: Case) -> None:
    case = replace(case, options=replace(case.options, release=True, growth=0))
    *_, world = played(case)
    for machine, place in running(world):
        flavour = int(world.work.flavour[machine])
        give_back(world.lanes.servers, world.work.flavours, 0, place, flavour)
    assert (world.lanes.servers.free[0] == world.lanes.servers.capacity).all()


@settings(max_examples=60)
@given(cases(), st.sampled_from(RULES), st.integers(0, 5))
def test_same_seed_same_log_and_rules_in_the_kernel_decide_as_call_by_call(
    case: Case, name: str, seed: int
) -> None:
    work = compile_trace(case.trace, case.options.double)
    runs = planned_runs(work, case.options, np.array([case.start]), case.limit)
    first, _ = play_runs(runs, make_vm_policy(name, seed))
    again, _ = play_runs(runs, make_vm_policy(name, seed))
    assert first == again
    policy, world = make_vm_policy(name, seed), VmsWorld(work, case.options)
    world.begin(case.start, case.limit)
    while (observation := world.next_decision()) is not None:
        world.apply(policy.decide(observation))
    assert world.figures() == first[0]


@settings(max_examples=40)
@given(cases())
def test_an_illegal_place_changes_nothing(case: Case) -> None:
    for world in played(case):
        observation = world.next_decision()
        if observation is None:
            with pytest.raises(IllegalDecision, match="no machine is waiting"):
                world.apply(0)
            return
        before = world.lanes.servers.free.copy()
        refused = [place for place, fits in enumerate(observation.avail) if not fits]
        for place in (-1, observation.avail.size, *refused):
            with pytest.raises(IllegalDecision, match="does not fit"):
                world.apply(place)
        assert (world.lanes.servers.free == before).all()


@pytest.mark.parametrize("scenario", ["recovering", "waiting", "rejecting", "fading", "expansion"])
def test_a_lane_of_a_batch_is_a_run_of_the_world(scenario: str) -> None:
    trace = generate_vms(2_000, 3)
    options = with_servers(SCENARIOS[scenario], 3)
    work = compile_trace(trace, options.double)
    batch = BatchedVms(work, options, 5, BatchSettings(first=100, last=900, limit=120, seed=7))
    world = VmsWorld(work, options)
    steps = batch.reset()
    starts = batch.lanes.tally[:, FIRST].copy()
    logs: list[list[tuple[int, float]]] = [[] for _ in range(5)]
    draw = np.random.default_rng(1)
    ended = np.zeros(5, dtype=bool)
    for _ in range(130):
        actions = np.array([int(draw.choice(np.flatnonzero(row))) for row in steps.avail])
        steps = batch.step(actions)
        for lane in np.flatnonzero(~ended).tolist():
            logs[lane].append((int(actions[lane]), float(steps.rewards[lane])))
        ended |= steps.ended
    assert ended.all()
    for lane in range(5):
        world.begin(int(starts[lane]), 120)
        for place, reward in logs[lane]:
            assert world.apply(place) == reward
        assert world.next_decision() is None


def test_a_batch_takes_the_built_in_rules_and_refuses_the_rest() -> None:
    trace = generate_vms(500, 0)
    options = VmsOptions((ServerShape(3),))
    work = compile_trace(trace, options.double)
    batch = BatchedVms(work, options, 2, BatchSettings(last=100))
    steps = batch.reset()
    assert (
        steps.obs.shape == (2, 3, 2, 2) and steps.feat.shape == (2, 2, 2, 2) and steps.avail.shape == (2, 6)
    )
    for name, array in (
        ("obs", steps.obs),
        ("req", steps.feat),
        ("feat", steps.feat),
        ("avail", steps.avail),
    ):
        assert batch.get_attr(name) is array
    with pytest.raises(UsageError, match="unknown attribute"):
        batch.get_attr("reward")
    batch.step(np.array([-1, -2]))
    free = batch.lanes.servers.free.copy()
    with pytest.raises(IllegalDecision, match="lane 1"):
        batch.step(np.array([-1, 6]))
    with pytest.raises(IllegalDecision, match="lane 0"):
        batch.step(np.array([-3, 0]))
    assert (batch.lanes.servers.free == free).all()


def test_the_same_seed_draws_the_same_starts_and_another_draws_others() -> None:
    options = SCENARIOS["recovering"]
    work = compile_trace(generate_vms(3_000, 0), options.double)

    def starts(seed: int) -> list[int]:
        batch = BatchedVms(work, options, 8, BatchSettings(seed=seed, last=2_000))
        batch.reset()
        return [int(first) for first in batch.lanes.tally[:, FIRST]]

    assert starts(1) == starts(1) != starts(2)
    assert len(set(starts(1))) == 8
