"""The queue of the pods world: order, back-off, waking, limits; worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject
from proreus.model.node import ZONE
from proreus.model.pod import Pod, PodAffinity, SpreadConstraint
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import compile_workload
from tests.oracles.kube_builders import app, near, node, pod, runs


def lasting(made: Pod, seconds: float) -> Pod:
    """The pod with a length of work."""
    return replace(made, duration=seconds)


def decide(world: PodsWorld, name: str, decision: Decision) -> float:
    """Answer the next question, which must be about the pod of that name; returns when it was asked."""
    observation = world.next_decision()
    assert observation is not None
    assert observation.subject.name == name
    world.apply(decision)
    return observation.now


def test_delays_back_off_twice_as_long_up_to_ten_seconds() -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (pod("p"),)))
    times = [decide(world, "p", Delay()) for _ in range(7)]
    # 1, 2, 4, 8, 10, 10 s, each ending on a whole second and so a second later: floor(end) < floor(now).
    assert times == [0.0, 2.0, 5.0, 10.0, 19.0, 30.0, 41.0]


def test_back_offs_end_on_whole_seconds() -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (pod("p", arrival=0.25),)))
    assert [decide(world, "p", Delay()) for _ in range(4)] == [0.25, 2.0, 5.0, 10.0]


def test_a_pod_delayed_twice_starts_at_the_third_decision() -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (lasting(pod("p"), 2.0),)))
    decide(world, "p", Delay())
    decide(world, "p", Delay())
    assert decide(world, "p", Place(0)) == 5.0
    assert world.next_decision() is None
    assert world.outcome().log == [("p", "done", "n0", 0.0, 5.0, 7.0, 0)]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_so_many_delays_and_the_pod_has_failed(limit: int) -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (pod("p"),)), PodsOptions(attempt_limit=limit))
    for _ in range(limit):
        decide(world, "p", Delay())
    assert world.next_decision() is None
    assert [row[1] for row in world.outcome().log] == ["failed"]


def test_without_a_limit_a_policy_may_delay_on() -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (pod("p"),)), PodsOptions(attempt_limit=0))
    for _ in range(150):
        decide(world, "p", Delay())
    decide(world, "p", Place(0))
    assert world.outcome().log[0][1] == "running"


def test_high_priority_first_then_longest_in_the_queue() -> None:
    world = PodsWorld(
        Workload("w", (node("n0"),), (pod("a"), pod("b", priority=5), pod("c", priority=5), pod("d")))
    )
    assert [decide(world, name, Place(0)) for name in ("b", "c", "a", "d")] == [0.0] * 4


def test_a_pod_that_fits_nowhere_waits_for_room_and_not_for_a_back_off() -> None:
    first, second = lasting(pod("first", cpu=10_000), 4.5), pod("second", cpu=10_000)
    world = PodsWorld(Workload("w", (node("n0"),), (first, second)))
    decide(world, "first", Place(0))
    decide(world, "second", Delay())
    assert decide(world, "second", Place(0)) == 4.5


def test_with_back_off_a_woken_pod_waits_out_its_back_off() -> None:
    """From the failed decision at 0 on: one second, which is over at 2."""
    first, second = lasting(pod("first", cpu=10_000), 0.5), pod("second", cpu=10_000)
    world = PodsWorld(
        Workload("w", (node("n0"),), (first, second)), PodsOptions(skip_backoff_when_idle=False)
    )
    decide(world, "first", Place(0))
    decide(world, "second", Delay())
    assert decide(world, "second", Place(0)) == 2.0


def test_a_woken_pod_whose_back_off_has_ended_does_not_wait() -> None:
    first, second = lasting(pod("first", cpu=10_000), 4.5), pod("second", cpu=10_000)
    world = PodsWorld(
        Workload("w", (node("n0"),), (first, second)), PodsOptions(skip_backoff_when_idle=False)
    )
    decide(world, "first", Place(0))
    decide(world, "second", Delay())
    assert decide(world, "second", Place(0)) == 4.5


def test_woken_pods_come_by_the_end_of_their_back_off_and_then_by_priority() -> None:
    """All fail; room comes at 2.5. Those that failed at 0 have rested, the others end at 2, 3 and 3."""
    pods = (
        lasting(pod("first", cpu=10_000), 2.5),
        pod("rested", cpu=5000),
        pod("soon", cpu=5000, arrival=1.5, priority=1),
        pod("low", cpu=5000, arrival=2.0, priority=2),
        pod("high", cpu=5000, arrival=2.0, priority=3),
        pod("new", cpu=5000, arrival=2.5),
    )
    world = PodsWorld(Workload("w", (node("n0"),), pods))
    decide(world, "first", Place(0))
    for name in ("rested", "soon", "high", "low"):
        decide(world, name, Delay())
    for name in ("rested", "new", "soon", "high", "low"):
        assert decide(world, name, Place(0) if name in ("rested", "new") else Delay()) == 2.5


def test_room_that_is_of_no_use_wakes_nobody() -> None:
    pods = (
        lasting(pod("cpu", cpu=1000), 1.0),
        lasting(pod("gpu", gpu=(1, 1000)), 2.0),
        pod("waits", gpu=(1, 500)),
    )
    world = PodsWorld(Workload("w", (node("n0", gpus=1, gpu_model="T4"),), pods))
    decide(world, "cpu", Place(0))
    decide(world, "gpu", Place(0))
    decide(world, "waits", Delay())
    assert decide(world, "waits", Place(0)) == 2.0


def test_a_start_that_a_pod_waited_to_be_near_wakes_it() -> None:
    """Kube's queueing hint for required affinity: a matching pod was assigned."""
    close = PodAffinity(required=(near("web", ZONE),))
    pods = (pod("follower", affinity=close), runs("leader", "web", arrival=5.0))
    outcome = simulate(
        compile_workload(Workload("w", (node("n0", zone="z"),), pods)), make_policy("first_fit")
    )
    assert [(row[0], row[1], row[4]) for row in outcome.log] == [
        ("follower", "running", 5.0),
        ("leader", "running", 5.0),
    ]


def test_a_start_that_evens_out_the_spread_wakes_who_waited_for_it() -> None:
    """Kube's queueing hint for hard spread: a pod that counts was assigned to the emptier domain."""
    spread = (SpreadConstraint(app("web"), ZONE, max_skew=1),)
    nodes = (node("east", zone="east"), node("west", zone="west", cpu=500, labels={"small": "yes"}))
    pods = (
        runs("first", "web", cpu=1000, spread=spread),
        runs("second", "web", cpu=1000, spread=spread),
        runs("small", "web", cpu=500, node_selector={"small": "yes"}, arrival=5.0),
    )
    outcome = simulate(compile_workload(Workload("w", nodes, pods)), make_policy("first_fit"))
    assert [(row[0], row[1], row[2]) for row in outcome.log] == [
        ("first", "running", "east"),
        ("second", "running", "east"),
        ("small", "running", "west"),
    ]


def test_a_bound_pod_is_on_its_node_whatever_filters_say() -> None:
    pods = (replace(pod("bound", cpu=8000), node="n1"), replace(pod("more", cpu=8000), node="n1"), pod("p"))
    world = PodsWorld(Workload("w", (node("n0"), node("n1", unschedulable=True)), pods))
    assert decide(world, "p", Place(0)) == 0.0
    assert world.next_decision() is None
    assert [row[1:3] for row in world.outcome().log] == [
        ("running", "n1"),
        ("running", "n1"),
        ("running", "n0"),
    ]
    assert world.state.free[1, 0] == 10_000 - 16_000


def test_a_bound_pod_takes_the_devices_that_are_left() -> None:
    pods = tuple(replace(pod(f"b{i}", gpu=(1, 1000)), node="n0") for i in range(3))
    world = PodsWorld(Workload("w", (node("n0", gpus=2, gpu_model="T4"),), pods))
    assert world.next_decision() is None
    assert world.state.gpu_left[0].tolist() == [0, 0]


def test_pods_that_wait_use_up_the_budget_of_those_that_run() -> None:
    """maxUnavailable 1: with one replica pending, evicting another breaks the budget."""
    budget = DisruptionBudget("b", app("web"), max_unavailable=1)
    big = [runs(f"w{i}", "web", cpu=10_000) for i in range(3)]
    other = pod("other", cpu=10_000, priority=1)
    nodes = (node("n0"), node("n1"), node("n2"))
    pods = (*big[:2], other, big[2], pod("high", cpu=10_000, priority=5, arrival=1.0))
    world = PodsWorld(Workload("w", nodes, pods, (budget,)))
    decide(world, "other", Place(2))
    decide(world, "w0", Place(0))
    decide(world, "w1", Place(1))
    decide(world, "w2", Delay())
    observation = world.next_decision()
    assert observation is not None and observation.subject.name == "high"
    assert [observation.victims(n) for n in range(3)] == [([0], 1), ([1], 1), ([2], 0)]


def test_an_evicted_pod_starts_over() -> None:
    low, high = (
        lasting(pod("low", cpu=10_000), 10.0),
        lasting(pod("high", cpu=6000, priority=1, arrival=4.0), 3.0),
    )
    world = PodsWorld(Workload("w", (node("n0"),), (low, high)))
    decide(world, "low", Place(0))
    assert decide(world, "high", Preempt(0)) == 4.0
    assert decide(world, "low", Delay()) == 4.0
    assert decide(world, "low", Place(0)) == 7.0
    assert world.next_decision() is None
    assert world.outcome().log == [
        ("low", "done", "n0", 0.0, 7.0, 17.0, 1),
        ("high", "done", "n0", 4.0, 4.0, 7.0, 0),
    ]


def test_an_evicted_pod_that_is_not_requeued_has_failed() -> None:
    pods = (pod("low", cpu=10_000), pod("high", cpu=6000, priority=1, arrival=4.0))
    world = PodsWorld(Workload("w", (node("n0"),), pods), PodsOptions(requeue_evicted=False))
    decide(world, "low", Place(0))
    decide(world, "high", Preempt(0))
    assert world.next_decision() is None
    assert [row[1] for row in world.outcome().log] == ["failed", "running"]
    assert world.outcome().log[0][6] == 1


def test_drop_failures_drops_at_the_first_attempt() -> None:
    pods = (lasting(pod("first", cpu=10_000), 1.0), pod("second", cpu=10_000))
    world = PodsWorld(Workload("w", (node("n0"),), pods), PodsOptions(drop_failures=True))
    decide(world, "first", Place(0))
    decide(world, "second", Delay())
    assert world.next_decision() is None
    assert [row[1] for row in world.outcome().log] == ["done", "failed"]


def test_a_rejected_pod_never_comes_back() -> None:
    world = PodsWorld(Workload("w", (node("n0"),), (pod("p"),)))
    decide(world, "p", Reject())
    assert world.next_decision() is None
    status, started = world.outcome().log[0][1], world.outcome().log[0][4]
    assert status == "rejected" and math.isnan(started)


def test_a_pod_without_work_makes_room_in_the_same_moment() -> None:
    pods = (lasting(pod("flash", cpu=10_000), 0.0), pod("next", cpu=10_000))
    outcome = simulate(compile_workload(Workload("w", (node("n0"),), pods)), make_policy("first_fit"))
    assert outcome.log[0][1:6] == ("done", "n0", 0.0, 0.0, 0.0)
    assert outcome.log[1][4] == 0.0 and outcome.log[1][1] == "running"


def test_fast_nodes_and_slow_starts_change_the_length_of_a_run() -> None:
    base = node("n0")
    quick = replace(base, pace=replace(base.pace, speed=4.0, start_seconds=1.5))
    outcome = simulate(
        compile_workload(Workload("w", (quick,), (lasting(pod("p", arrival=2.0), 10.0),))),
        make_policy("first_fit"),
    )
    assert outcome.log == [("p", "done", "n0", 2.0, 2.0, 6.0, 0)]
