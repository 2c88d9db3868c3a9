"""The rows of an open cluster: sums equal a plain count, rows are given back, handles stay or change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import InputError
from proreus.model.node import ZONE, Node
from proreus.model.pod import GpuRequest, Pod, PodAffinity, PodSpec, PodTerm, SpreadConstraint
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import match_labels
from proreus.model.workload import DisruptionBudget
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.state.diagnosis import diagnose
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.capacity import LIKE, Room
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.kernels import (
    admit,
    count_budget,
    count_term,
    dismiss,
    lift,
    lower,
    refill_fragments,
    weigh,
)
from proreus.worlds.pods.state.open.nodes import close_gap
from proreus.worlds.pods.state.open.values import Unlisted
from proreus.worlds.pods.state.open.warm_up import warm_up_open
from proreus.worlds.pods.state.placement import place
from tests.worlds.pods.histories import History
from tests.worlds.pods.recount import count_terms

POD = Pod("p", PodSpec(Resources(cpu=1000, memory=GIB), labels=(("app", "a"),)))


def node(name: str, zone: str = "east", gpus: int = 0) -> Node:
    return Node(
        name,
        Resources(cpu=4000, memory=8 * GIB, pods=10),
        gpu_count=gpus,
        gpu_model="T4" if gpus else "",
        labels=((ZONE, zone),),
    )


def two_nodes() -> OpenCluster:
    cluster = OpenCluster()
    cluster.add_node(node("a"))
    cluster.add_node(node("b", "west", gpus=2))
    return cluster


def plain_sums(observation: PodObservation, history: History) -> dict[str, np.typing.NDArray[np.int64]]:
    """What the state should hold by term, port and budget, counted pod by pod."""
    cluster, state = observation.cluster, observation.state
    classes, terms, domain = cluster.classes, cluster.terms, cluster.nodes.domain
    names = (
        "matching",
        "matching_in",
        "matching_all",
        "avoided_in",
        "drawn_in",
        "ports_used",
        "healthy",
        "expected",
    )
    sums = {name: np.zeros_like(getattr(state, name)) for name in names}
    rows = {pod.name: p for p, pod in enumerate(observation.compiled.workload.pods)}
    places = {each.name: n for n, each in enumerate(history.nodes)}
    present = [(each.pod, places[each.node]) for each in history.running]
    for pod, n in (*present, *((pod, -1) for pod in history.waiting)):
        c = int(cluster.pod_class[rows[pod.name]])
        chosen = np.flatnonzero(cluster.budgets.selects[:, c])
        sums["expected"][chosen] += 1
        if n < 0:
            continue
        sums["healthy"][chosen] += 1
        for q in classes.port[classes.port_start[c] : classes.port_start[c + 1]]:
            sums["ports_used"][q, n] += 1
        count_terms(sums, terms, domain[:, n], (c, n))
    return sums


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_sums_by_term_port_and_budget_equal_a_plain_count(seed: int) -> None:
    history = History(random.Random(seed))
    kube = make_policy("kube")
    for _ in range(60):
        history.step([kube])
    observation = history.observe(POD)
    for name, wanted in plain_sums(observation, history).items():
        assert getattr(observation.state, name).tolist() == wanted.tolist(), name


def test_rows_are_given_back() -> None:
    """Pods of classes never seen before come and go without end; nothing grows with how many there were."""
    cluster = two_nodes()

    def come_and_go(first: int, count: int) -> None:
        for k in range(first, first + count):
            key = f"topology/{k}"
            spec = PodSpec(
                Resources(cpu=1 + k, extended=(("example.com/licence", 1),)),
                labels=(("app", f"app-{k}"),),
                node_selector=(("only", str(k)),),
                anti_affinity=PodAffinity(required=(PodTerm(match_labels({"app": f"app-{k}"}), key),)),
                spread=(SpreadConstraint(match_labels({"app": f"app-{k}"}), ZONE),),
                host_ports=(("", "TCP", 1 + k),),
            )
            pod = Pod(f"pod-{k}", spec)
            cluster.add_budget(DisruptionBudget(f"b-{k}", match_labels({"app": "a"}), min_available=1))
            cluster.observe(pod)
            cluster.add_pod(pod, "a")
            cluster.add_node(node(f"node-{k}", zone=f"zone-{k}"))
            cluster.remove_node(f"node-{k}")
            cluster.remove_pod(pod.name)
            cluster.remove_budget(f"b-{k}")

    come_and_go(0, 150)
    before = cluster.bytes()
    come_and_go(150, 200)
    assert cluster.bytes() == before


def test_the_state_stays_while_pods_come_and_go_and_changes_with_the_nodes() -> None:
    cluster = two_nodes()
    for k in range(6):
        cluster.add_pod(Pod(f"pod-{k}", POD.spec), "a" if k % 2 else None)
    state = cluster.observe(POD).state
    cluster.remove_pod("pod-1")
    cluster.bind_pod("pod-0", "b")
    cluster.add_pod(Pod("late", POD.spec))
    cluster.update_node(replace(node("a"), unschedulable=True))
    assert cluster.observe(POD).state is state
    cluster.add_node(node("c"))
    assert cluster.observe(POD).state is not state
    assert cluster.observe(POD).state.counts is state.counts


def test_a_cluster_may_be_without_nodes_for_a_while() -> None:
    cluster = OpenCluster()
    cluster.add_pod(POD)
    cluster.add_node(node("a"))
    cluster.remove_node("a")
    cluster.add_pod(Pod("q", replace(POD.spec, priority=5)))
    cluster.add_node(node("b"))
    assert cluster.observe("q").refusals().tolist() == [0]
    cluster.bind_pod("q", "b")
    assert cluster.place_of("q") == "b"


def test_the_demand_is_renewed_after_as_many_changes_as_pods_were_counted() -> None:
    cluster = two_nodes()
    for k in range(3):
        cluster.add_pod(Pod(f"pod-{k}", POD.spec))
    cluster.observe(POD)
    assert cluster.snapshot().demand.pods == 3
    for k in range(3, 5):
        cluster.add_pod(Pod(f"pod-{k}", POD.spec))
    cluster.observe(POD)
    assert cluster.snapshot().demand.pods == 3
    cluster.remove_pod("pod-0")
    cluster.observe(POD)
    assert cluster.snapshot().demand.pods == 4


def test_a_policy_goes_on_where_it_was_when_the_cluster_grows() -> None:
    cluster, policy = two_nodes(), make_policy("round_robin")
    assert isinstance(policy, RulePolicy)
    asked = Pod("asked", PodSpec(Resources(cpu=1)))
    chosen = [policy.decide(cluster.observe(asked))]
    cluster.add_node(node("c"))
    chosen += [policy.decide(cluster.observe(asked)) for _ in range(3)]
    assert [decision.node for decision in chosen if hasattr(decision, "node")] == [0, 1, 2, 0]
    for name in ("a", "b"):  # the next would have been row 1, which is gone
        cluster.remove_node(name)
    assert policy.decide(cluster.observe(asked)) == policy.fresh(0).decide(cluster.observe(asked))


def test_class_rows_that_change_hands_have_another_epoch() -> None:
    cluster = two_nodes()
    epochs = []
    for k in range(200):
        seen = cluster.observe(Pod("asked", PodSpec(Resources(cpu=1 + k))))
        epochs.append((seen.pod_class, int(seen.cluster.classes.epoch[seen.pod_class])))
    assert len(set(epochs)) == len(epochs)
    assert len({c for c, _ in epochs}) < len(epochs)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (lambda c: c.add_node(node("a")), "node a: is there already"),
        (lambda c: c.update_node(node("z")), "node z: is not there"),
        (lambda c: c.remove_node("z"), "node z: is not there"),
        (lambda c: c.remove_node("a"), "node a: pods are still on it"),
        (lambda c: c.set_unlisted("b", Unlisted(gpu_used=(1, 1, 1))), "b: lists 3 GPUs, the node has 2"),
        (lambda c: c.add_pod(POD), "pod p: is there already"),
        (lambda c: c.add_pod(Pod("q", POD.spec), "z"), "node z: is not there"),
        (
            lambda c: c.add_pod(Pod("q", PodSpec(Resources(), gpu=GpuRequest(1, 500))), "a"),
            "a: pod 'q' holds 1 x 500 of 1000 GPU parts, which its devices do not have",
        ),
        (lambda c: c.bind_pod("p", "b"), "pod p: runs already"),
        (lambda c: c.bind_pod("q", "b"), "pod q: is not there"),
        (lambda c: c.remove_pod("q"), "pod q: is not there"),
        (lambda c: c.observe("p"), "pod p: runs already"),
        (lambda c: c.remove_budget("b"), "budget b: is not there"),
        (lambda c: OpenCluster().observe(POD), "the cluster has no node"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    event: Callable[[OpenCluster], None], complaint: str
) -> None:
    cluster = two_nodes()
    cluster.add_pod(POD, "a")
    before = cluster.snapshot()
    with pytest.raises(InputError) as raised:
        event(cluster)
    assert str(raised.value) == complaint
    assert cluster.snapshot() == before


def test_after_warming_up_no_kernel_is_left_to_compile() -> None:
    warm_up_open()
    kernels: tuple[Any, ...] = (
        admit,
        dismiss,
        place,
        lift,
        lower,
        count_term,
        count_budget,
        refill_fragments,
        weigh,
    )
    before = [len(kernel.signatures) for kernel in kernels]
    assert all(before)
    history = History(random.Random(3))
    for _ in range(80):
        history.step([make_policy("first_fit")])
    assert [len(kernel.signatures) for kernel in kernels] == before


def test_what_is_there_can_be_read() -> None:
    cluster = two_nodes()
    cluster.add_pod(POD)
    cluster.add_pod(Pod("g", PodSpec(Resources(), gpu=GpuRequest(1, 500))), "b", devices=2, since=3.0)
    cluster.set_unlisted("a", Unlisted(Resources(cpu=500)))
    assert list(cluster.node_names()) == ["a", "b"]
    assert list(cluster.pod_names()) == ["p", "g"]
    assert (cluster.place_of("p"), cluster.place_of("g")) == (None, "b")
    assert (cluster.pod("p"), cluster.node("a")) == (POD, node("a"))
    there = cluster.snapshot()
    assert [(each.pod.name, each.node, each.devices, each.since) for each in there.running] == [
        ("g", "b", 2, 3.0)
    ]
    assert there.waiting == (POD,)
    assert there.unlisted == (Unlisted(Resources(cpu=500)), Unlisted())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=60))
def test_ids_are_the_lowest_free_numbers(uses: list[tuple[bool, int]]) -> None:
    ids: Ids[int] = Ids()
    held: dict[int, int] = {}
    times: dict[int, int] = {}
    for take, value in uses:
        if take:
            lowest = min(set(range(len(held) + 1)) - set(held.values()))
            assert ids.take(value) == (held.get(value, lowest), value not in held)
            held.setdefault(value, lowest)
            times[value] = times.get(value, 0) + 1
        elif value in held:
            times[value] -= 1
            assert ids.drop(value) == (held[value], times[value] == 0)
            if not times[value]:
                del held[value]
    assert dict(ids.items()) == held
    assert len(ids) == len(held)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9))))))
def test_ragged_lists_equal_lists_of_lists(changes: list[tuple[int, list[tuple[int, int]]]]) -> None:
    room = Room()
    room.ensure(C=10)
    wanted: list[list[tuple[int, int]]] = [[] for _ in range(room.sizes["C"])]
    for row, entries in changes:
        room.put(LIKE, row, entries)
        wanted[row] = entries
    start, terms = room.terms.like_start, room.terms
    for row, entries in enumerate(wanted):
        part = slice(start[row], start[row + 1])
        assert list(zip(terms.like[part].tolist(), terms.like_weight[part].tolist(), strict=True)) == entries


@given(st.integers(1, 6), st.integers(0, 8))
def test_a_gap_closes(rows: int, n: int) -> None:
    table = np.arange(rows * 10, dtype=np.int64).reshape(rows, 10)
    wanted = [[*line[:n], *line[n + 1 :]] for line in table.tolist()]
    close_gap(table, n, 9)
    assert table[:, :9].tolist() == wanted


def test_resources_of_ones_own_on_every_node_do_not_move_all_rows_each_time() -> None:
    """2,000 nodes with one each took 19 s: for each new column every row of the tables was moved."""
    cluster, widths = OpenCluster(), set()
    for number in range(300):
        size = Resources(cpu=4000, memory=8 * GIB, pods=10, extended=((f"x/{number}", 1),))
        cluster.add_node(Node(f"n{number}", size))
        widths.add(cluster._room.sizes["R"])
    assert len(widths) < 24
    pod = Pod("asks", PodSpec(Resources(extended=(("x/217", 1),))))
    observation = cluster.observe(pod)
    assert np.flatnonzero(observation.action_mask()[:300]).tolist() == [217]
    diagnosis = diagnose(observation)
    names = observation.compiled.columns
    assert diagnosis.short.shape == (300, len(names) + 1)
    assert [names[column] for column in np.flatnonzero(diagnosis.short.any(axis=0))] == ["x/217"]
    cluster.update_node(Node("n217", Resources(cpu=4000, memory=8 * GIB, pods=10)))
    assert not cluster.observe(pod).action_mask()[:300].any()
