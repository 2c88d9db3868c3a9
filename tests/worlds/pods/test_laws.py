"""Laws of the pods world that hold for every policy, checked by counting anew after every decision."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.decision import Delay, Place, Preempt
from proreus.model.workload import Workload
from proreus.policies.protocol import Explains
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.state.observation import PodObservation
from tests.oracles.kube_builders import node, pod
from tests.oracles.kube_filters import first_failure
from tests.worlds.pods.strategies import workloads
from tests.worlds.pods.watched import Watched, gpu_capacity

LAWS = settings(max_examples=12)
MORE = settings(max_examples=40)
ENDED = ("done", "running", "rejected", "failed")

DRAWING_OR_ROTATING = ("random", "round_robin", "kube", "kube_plus")

every_policy = pytest.mark.parametrize("policy", sorted(POLICIES.names))


@every_policy
@LAWS
@given(workload=workloads(), seed=st.integers(0, 3))
def test_books_balance_after_every_decision(policy: str, workload: Workload, seed: int) -> None:
    """Capacity, devices, sums, linked lists, statuses, on-time departures, legal delays, evictions."""
    compiled = compile_workload(workload)
    watched = Watched(compiled)
    watched.run(make_policy(policy, seed=seed).decide)

    pods = workload.pods
    for step in watched.steps:
        # A rule waits, or evicts, only where no node may take the pod.
        assert step.legal_nodes == 0 or not isinstance(step.decision, Delay | Preempt)
        assert bool(step.victims) == isinstance(step.decision, Preempt)
        for victim in step.victims:
            assert pods[victim].spec.priority < pods[step.pod].spec.priority
            assert pods[step.pod].spec.may_preempt
    log = watched.world.outcome().log
    assert {row[1] for row in log} <= set(ENDED)
    evictions = Counter(victim for step in watched.steps for victim in step.victims)
    assert [row[6] for row in log] == [evictions[p] for p in range(len(pods))]
    last_node = dict.fromkeys(range(len(pods)), "")
    for step in watched.steps:
        if isinstance(step.decision, Place | Preempt):
            last_node[step.pod] = workload.nodes[step.decision.node].name
    for p, (_, status, where, _, started, finished, _) in enumerate(log):
        assert (status == "running") == (p in watched.running)
        assert where == last_node[p]
        assert (status == "done") == math.isfinite(finished)
        assert status != "running" or math.isinf(pods[p].duration)
        assert math.isnan(started) or started >= pods[p].arrival


@every_policy
@LAWS
@given(workload=workloads(flavours=("affinity", "spread", "anti", "plain")))
def test_no_feasible_pod_is_left_behind(policy: str, workload: Workload) -> None:
    """Whoever still waits when nothing can happen any more fits nowhere."""
    watched = Watched(compile_workload(workload))
    watched.run(make_policy(policy).decide)
    state = watched.believed()
    for subject, row in zip(workload.pods, watched.world.outcome().log, strict=True):
        if row[1] == "failed":
            assert all(first_failure(state, subject, n) is not None for n in range(len(workload.nodes)))


@MORE
@given(workload=workloads(), policy=st.sampled_from(sorted(POLICIES.names)))
def test_measures_equal_what_the_stays_add_up_to(workload: Workload, policy: str) -> None:
    """Allocation averages, waits, completion times and counts, recomputed from the ledger."""
    watched = Watched(compile_workload(workload))
    watched.run(make_policy(policy).decide)
    outcome = watched.world.outcome()
    measures, log = outcome.measures, outcome.log
    if watched.now > workload.pods[0].arrival:
        mean = watched.mean_use()
        total_cpu = sum(node.allocatable.cpu for node in workload.nodes)
        assert measures["cpu_allocation"] == pytest.approx(100 * mean[0] / total_cpu)
        if gpu_capacity(watched.compiled):
            assert measures["gpu_allocation"] == pytest.approx(
                100 * mean[-1] / gpu_capacity(watched.compiled)
            )
    waits = [row[4] - row[3] for row in log if not math.isnan(row[4])]
    assert measures.get("wait_mean") == (pytest.approx(np.mean(waits)) if waits else None)
    times = [row[5] - row[3] for row in log if row[1] == "done"]
    assert measures.get("jct_mean") == (pytest.approx(np.mean(times)) if times else None)
    ends = [row[5] for row in log if row[1] == "done"]
    assert measures.get("makespan") == (max(ends) - workload.pods[0].arrival if ends else None)
    assert measures["decisions"] == len(watched.steps)
    assert measures["preemptions"] == sum(len(step.victims) for step in watched.steps)
    assert measures["failures"] == sum(row[1] in ("failed", "rejected") for row in log)


def comparable(outcome: PodsOutcome) -> tuple[object, ...]:
    """An outcome as values that compare bit for bit; the speed of this machine is not part of it."""
    measures = {name: value for name, value in outcome.measures.items() if name != "decisions_per_s"}
    curves = outcome.curves
    arrays = (curves.time, curves.arrived, curves.waiting, curves.running, curves.fragmentation)
    allocation = {name: values.tobytes() for name, values in curves.allocation.items()}
    return (
        repr(measures),
        repr(outcome.log),
        [values.tobytes() for values in arrays],
        allocation,
        outcome.heat.tobytes(),
        outcome.heat_times.tobytes(),
    )


@every_policy
@LAWS
@given(workload=workloads(), seed=st.integers(0, 3))
def test_same_seed_same_log_fused_or_stepwise(policy: str, workload: Workload, seed: int) -> None:
    compiled = compile_workload(workload)
    first = comparable(simulate(compiled, make_policy(policy, seed=seed)))
    assert comparable(simulate(compiled, make_policy(policy, seed=seed))) == first
    assert comparable(simulate(compile_workload(workload), make_policy(policy, seed=seed))) == first
    stepwise = simulate(compiled, make_policy(policy, seed=seed), inspect=lambda observation: None)
    assert comparable(stepwise) == first


@every_policy
@LAWS
@given(workload=workloads())
def test_looking_does_not_change_the_run(policy: str, workload: Workload) -> None:
    """A run whose every moment is inspected and explained goes like one that nobody watches."""
    compiled = compile_workload(workload)
    undisturbed = simulate(compiled, make_policy(policy))
    watched_policy = make_policy(policy)
    assert isinstance(watched_policy, Explains)

    def look(observation: PodObservation) -> None:
        observation.refusals()
        observation.action_mask()
        for n in range(len(workload.nodes)):
            observation.victims(n)
        explanation = watched_policy.explain(observation)
        assert explanation == watched_policy.explain(observation)

    looked_at = simulate(compiled, watched_policy, inspect=look)
    assert repr(looked_at.log) == repr(undisturbed.log)


def three_nodes_full() -> Workload:
    """Nine pods of one kind that fill three nodes."""
    nodes = tuple(node(f"n{i}", cpu=3000, gpus=1, gpu_model="T4") for i in range(3))
    return Workload("full", nodes, tuple(pod(f"p{i}", cpu=1000, gpu=(1, 300)) for i in range(9)))


@every_policy
def test_a_policy_object_can_be_run_again(policy: str) -> None:
    """What a policy remembers of one run over a workload is not taken for the state of the next."""
    compiled = compile_workload(three_nodes_full())
    made = make_policy(policy)
    simulate(compiled, made)
    again = simulate(compiled, made)
    assert again.measures["failures"] == 0


@every_policy
def test_a_policy_object_can_serve_two_worlds_in_turns(policy: str) -> None:
    """Two runs over one workload, in turns: neither is decided by what is remembered of the other."""
    compiled = compile_workload(three_nodes_full())
    ahead, behind = PodsWorld(compiled), PodsWorld(compiled)
    for _ in range(3):  # one of the two is ahead, and its last node is full
        assert ahead.next_decision() is not None
        ahead.apply(Place(2))
    made = make_policy(policy)
    for world in (ahead, behind) * 9:
        observation = world.next_decision()
        if observation is not None:
            decision = made.decide(observation)
            if policy not in DRAWING_OR_ROTATING:
                assert decision == make_policy(policy).decide(observation)
            world.apply(decision)
    assert [world.outcome().measures["failures"] for world in (ahead, behind)] == [0, 0]


@every_policy
@LAWS
@given(workload=workloads())
def test_dropped_failures_are_decided_once(policy: str, workload: Workload) -> None:
    """With `drop_failures` nobody waits: every pod starts when it comes (or comes back) or never."""
    watched = Watched(compile_workload(workload), PodsOptions(drop_failures=True))
    watched.run(make_policy(policy).decide)
    decided = Counter(step.pod for step in watched.steps)
    for p, row in enumerate(watched.world.outcome().log):
        assert decided[p] == 1 + row[6]
        if row[6] == 0:
            assert math.isnan(row[4]) or row[4] == row[3]
        assert row[1] != "failed" or row[6] > 0 or math.isnan(row[4])


@every_policy
@LAWS
@given(workload=workloads())
def test_evicted_pods_stay_out_when_they_are_not_requeued(policy: str, workload: Workload) -> None:
    watched = Watched(compile_workload(workload), PodsOptions(requeue_evicted=False))
    watched.run(make_policy(policy).decide)
    evicted = {victim for step in watched.steps for victim in step.victims}
    for p, row in enumerate(watched.world.outcome().log):
        assert row[6] == (1 if p in evicted else 0)
        assert p not in evicted or row[1] == "failed"
