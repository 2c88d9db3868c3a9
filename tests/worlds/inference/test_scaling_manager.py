"""The scaling manager: the document's methods and lines, and limits that nothing breaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.model.cluster import ROLES
from proreus.worlds.inference.model.decision import NOTHING, Scale, ScaleSteps
from proreus.worlds.inference.model.start_up import Limits, StartUp, starting_within
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.scaling_manager import ScalingManager
from tests.worlds.inference.clusters import TIMINGS, kind_of, requests, spec_of
from tests.worlds.inference.laws import check


def managed(
    limits: Limits, start: float = 10.0, room: int = 400
) -> tuple[InferenceCluster, ScalingManager, list[str]]:
    """Two prompt and two token instances."""
    cluster = InferenceCluster(
        spec_of(kind_of("splitwise", "table", room), "mixed_pool"), requests(1, 200), TIMINGS, 0, 12
    )
    lines: list[str] = []
    return cluster, ScalingManager(cluster, limits, starting_within(start), lines.append), lines


def test_an_instance_comes_and_goes_with_its_server() -> None:
    cluster, manager, lines = managed(Limits())
    cluster.advance(1.0)
    server, instance = manager.scale_up_full(tag="token")
    assert server is not None and instance is not None
    assert (server.server_id, instance.instance_id, instance.tag) == (4, 4, "token")
    assert manager.get_status_summary() == {
        "active_instances": 4,
        "scaling_up_instances": 1,
        "draining_instances": 0,
        "total_servers": 5,
        "total_instances": 5,
    }
    assert instance not in manager.get_active_instances()
    cluster.advance(11.5)
    manager.notice()
    assert manager.get_active_instances([instance]) == [instance]
    assert manager.scale_down_full(instance)
    cluster.advance()
    manager.notice()
    assert instance.status == c.STOPPED
    assert lines == [
        "[ScalingManager] Full scale-up: server 4 + instance 4",
        "[Action] Added token instance 4 on server 4",
        "[ScalingManager] Instance 4 scaled up at 11.00",
        "[ScalingManager] Instance 4 draining started at 11.50",
        "[Action] Removed token instance 4",
        "[ScalingManager] Auto scale-down server 4 after instance removal",
    ]


def test_a_starting_instance_gets_no_work_and_an_active_one_does() -> None:
    cluster, manager, _ = managed(Limits(), start=2.0, room=2_000)
    manager.scale_up_full(tag="prompt")
    cluster.advance(1.99)
    check(cluster)
    assert cluster.run.fleet[4, c.BOUND] == 0 and cluster.run.tally[c.NEXT_REQUEST] > 10
    cluster.advance()
    rows = cluster.rows()
    served = rows[rows[:, c.L_PROMPT_BY] == 4]
    assert len(served) and (served[:, c.L_STARTED] >= 2.0).all()


def test_what_is_blocked_is_said() -> None:
    _, manager, lines = managed(Limits(least=2, most_in_total=4))
    assert manager.scale_up_full(tag="prompt") == (None, None)
    assert not manager.scale_down_full(manager.victims("prompt")[0])
    assert lines == [
        "[Action Blocked] Max cluster size reached (4)",
        "[Action Blocked] Cannot remove prompt, min limit reached",
    ]


def test_a_provider_without_servers_says_no() -> None:
    _, manager, lines = managed(Limits(servers=(("one", 5),)))
    assert manager.scale_up_full(tag="prompt")[1] is not None
    assert manager.scale_up_full(tag="token") == (None, None)
    assert manager.refused == 1 and lines[-1] == "[Action Blocked] No capacity for one"


def test_a_start_takes_what_its_weights_take() -> None:
    kind = kind_of("splitwise", "table", 100)
    start = StartUp(30.0, storage_gigabytes=2e-7, bus_gigabytes=1e-6, warm_up_seconds=5.0)
    assert start.loading_seconds(kind) == pytest.approx(1_000 / 200)
    assert start.seconds(kind) == pytest.approx(40.0)
    cluster = InferenceCluster(spec_of(kind, "mixed_pool"), requests(1), TIMINGS, 0, 6)
    row = cluster.order("one", "token", start)
    assert row is not None
    for moment, status in ((29.0, c.PROVISIONING), (31.0, c.LOADING), (36.0, c.WARMING), (41.0, c.ACTIVE)):
        cluster.advance(moment)
        assert cluster.run.fleet[row, c.STATUS] == status


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_limits_hold_whatever_is_asked_for(seed: int) -> None:
    draw = np.random.default_rng(seed)
    limits = Limits(least=1, most=4, most_in_total=7)
    cluster, manager, _ = managed(limits, start=float(draw.choice([0.0, 0.2])))
    for step in range(40):
        cluster.advance(0.1 * (step + 1))
        prompt, token, migrate = draw.integers(-3, 4, 3).tolist()
        manager.carry_out(Scale(prompt, token, migrate=migrate))
        check(cluster)
        assert manager.total() <= 7
        for role in ROLES[:2]:
            assert 1 <= manager.count(role) <= 4


def test_flat_actions_are_changes() -> None:
    steps = ScaleSteps()
    assert len(steps) == 11 * 11 * 7
    for number in range(0, len(steps), 13):
        assert steps.number(steps.action(number)) == number
    assert steps.action(steps.number(NOTHING)) == NOTHING
    assert len(ScaleSteps(("mixed",))) == 11
    with pytest.raises(ValueError, match="beyond"):
        steps.number(Scale(prompt=6))
    with pytest.raises(ValueError, match="beyond"):
        steps.number(Scale(mixed=1))
