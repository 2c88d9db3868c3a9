"""Laws under random scaling at every step: nobody is lost or served twice, memory holds, limits hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.model.cluster import Engine, InstanceKind, Role, Scheduler
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.start_up import StartUp, starting_within
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import TWO_POOLS, InferenceCluster
from tests.worlds.inference.clusters import TIMINGS, kind_of, requests, spec_of
from tests.worlds.inference.laws import check

SCHEDULERS: tuple[Scheduler, ...] = (
    "random",
    "round_robin",
    "jsq",
    "token_jsq",
    "kv_round_robin",
    "kv_jsq",
    "kv_token_jsq",
    "mixed_pool",
)
ENGINES: tuple[Engine, ...] = ("orca", "splitwise", "chunked")
MOST = 8


def some_kind(engine: Engine, timing: str, seed: int) -> InstanceKind:
    """With little KV memory."""
    return kind_of(engine, timing, room=200 + seed % 400)


def roles_of(scheduler: Scheduler) -> tuple[Role, ...]:
    """Pools that may not stay empty."""
    return ("prompt", "token") if scheduler in TWO_POOLS else ("mixed",)


def shaken(
    seed: int, kind: InstanceKind, scheduler: Scheduler, losses: int = 100, trace: RequestTrace | None = None
) -> InferenceCluster:
    """A run that is scaled at random twenty times a second, and then has what it needs to end."""
    draw = np.random.default_rng(seed)
    spec = spec_of(kind, scheduler)
    spec = replace(spec, most_losses=losses, drain_check_seconds=float(draw.choice([0, 0.3])))
    cluster = InferenceCluster(spec, trace or requests(seed), TIMINGS, seed, MOST)
    roles = roles_of(scheduler)
    for step in range(40):
        cluster.advance(0.05 * (step + 1))
        check(cluster)
        status = cluster.run.fleet[:, c.STATUS]
        alive = np.flatnonzero((status != c.ABSENT) & (status != c.STOPPED))
        match int(draw.integers(6)):
            case 0 | 1:
                cluster.order("one", roles[int(draw.integers(len(roles)))], StartUp(0.05, 1e-4, 1e-4, 0.02))
            case 2 if (status == c.ACTIVE).any():
                cluster.drain(int(draw.choice(np.flatnonzero(status == c.ACTIVE))))
            case 3 if alive.size:
                cluster.lose(int(draw.choice(alive)))
            case 4 if len(roles) == 2 and (status == c.ACTIVE).any():
                cluster.migrate(
                    int(draw.choice(np.flatnonzero(status == c.ACTIVE))), roles[int(draw.integers(2))]
                )
            case _:
                pass
        check(cluster)
    for row in range(len(roles)):
        if cluster.run.fleet[row, c.STATUS] not in (c.ABSENT, c.STOPPED):
            cluster.lose(row)
    for role in roles:
        assert cluster.order("one", role, starting_within(0.0)) is not None
    assert cluster.advance()
    check(cluster)
    return cluster


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("engine", "timing"),
    [("orca", "table"), ("splitwise", "table"), ("splitwise", "layers"), ("chunked", "layers")],
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
@example(seed=1097)  # once two instances of a mixed pool waited for each other's room for ever
def test_every_request_ends_once_whatever_is_scaled(
    engine: Engine, timing: str, scheduler: Scheduler, seed: int
) -> None:
    assert_all_end(shaken(seed, some_kind(engine, timing, seed), scheduler))


@pytest.mark.parametrize("scheduler", ["jsq", "kv_jsq", "mixed_pool"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), in_step=st.integers(2, 3))
def test_so_it_is_where_instances_iterate_in_step(scheduler: Scheduler, seed: int, in_step: int) -> None:
    kind = replace(some_kind("chunked", "layers", seed), in_step=in_step, plans_ahead=seed % 2 == 0)
    assert_all_end(shaken(seed, kind, scheduler))


def assert_all_end(cluster: InferenceCluster) -> None:
    """Every request once, and one thing after the other."""
    rows = cluster.rows()
    assert sorted(rows[:, c.L_REQUEST].tolist()) == list(range(len(cluster.trace)))
    assert set(rows[:, c.L_STATUS].tolist()) <= {c.COMPLETED, c.REJECTED}
    done = rows[rows[:, c.L_STATUS] == c.COMPLETED]
    assert (done[:, c.L_ARRIVAL] <= done[:, c.L_STARTED]).all()
    assert (done[:, c.L_STARTED] < done[:, c.L_FIRST]).all() and (
        done[:, c.L_FIRST] <= done[:, c.L_ENDED]
    ).all()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES))
def test_the_same_seed_gives_the_same_log(seed: int, engine: Engine) -> None:
    first, second = (
        shaken(seed, some_kind(engine, "table" if engine != "chunked" else "layers", seed), "mixed_pool")
        for _ in range(2)
    )
    assert np.array_equal(first.rows(), second.rows(), equal_nan=True)
    assert first.events == second.events


def test_requests_whose_instances_are_lost_too_often_are_lost() -> None:
    statuses = set()
    for seed in range(12):
        cluster = shaken(seed, some_kind("splitwise", "table", seed), "jsq", losses=0)
        statuses |= set(cluster.rows()[:, c.L_STATUS].tolist())
    assert statuses == {c.COMPLETED, c.LOST} or statuses == {c.COMPLETED, c.LOST, c.REJECTED}


def test_nothing_happens_differently_when_time_is_cut_in_pieces() -> None:
    spec = spec_of(kind_of("splitwise", "table", 400), "mixed_pool")
    whole, pieces = (InferenceCluster(spec, requests(3), TIMINGS) for _ in range(2))
    whole.advance()
    now = 0.0
    while not pieces.advance(now) and now < 100.0:
        now += 0.037
    assert pieces.advance(math.inf)
    assert np.array_equal(whole.rows(), pieces.rows(), equal_nan=True)
