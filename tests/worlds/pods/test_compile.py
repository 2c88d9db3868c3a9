"""What a workload compiles to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from proreus.kernels.structs import pack
from proreus.model.node import HOSTNAME, ZONE
from proreus.model.pod import Pod, PodAffinity, SpreadConstraint
from proreus.model.resources import BASE_COLUMNS, COL_PODS, MIB
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.state.columns import Budgets, Ports
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place
from tests.oracles.kube_builders import app, near, node, pod, runs
from tests.oracles.kube_state import pod_term_matches, round_robin_by_zone
from tests.worlds.pods.strategies import workloads

USUAL = settings(max_examples=40)


def test_pods_with_equal_specs_are_one_class() -> None:
    pods = (pod("a", cpu=1), pod("b", cpu=2), pod("c", cpu=1, arrival=5.0), pod("d", cpu=2, arrival=6.0))
    compiled = compile_workload(Workload("w", (node("n"),), pods))
    assert compiled.cluster.pod_class.tolist() == [0, 1, 0, 1]
    assert [spec.requests.cpu for spec in compiled.specs] == [1, 2]


def test_columns_and_requests() -> None:
    nodes = (
        node("n0", extended={"b": 3}),
        node("n1", cpu=5, gpus=2, gpu_model="T4"),
        node("n2", gpus=1, gpu_model="A"),
    )
    compiled = compile_workload(Workload("w", nodes, (pod("p", cpu=7, extended={"a": 1}),)))
    assert compiled.columns == (*BASE_COLUMNS, "a", "b")
    assert compiled.models == ("A", "T4")
    assert compiled.cluster.nodes.gpu_model.tolist() == [-1, 1, 0]
    assert compiled.cluster.nodes.allocatable[:, -2:].tolist() == [[0, 3], [0, 0], [0, 0]]
    request = compiled.cluster.classes.request[0].tolist()
    assert request[0] == 7 and request[COL_PODS] == 1 and request[-2:] == [1, 0]


def test_nodes_are_visited_round_robin_over_zones() -> None:
    zones = ("a", "a", "b", "a", "c", "b", "")
    nodes = tuple(node(f"n{i}", zone=zone) if zone else node(f"n{i}") for i, zone in enumerate(zones))
    compiled = compile_workload(Workload("w", nodes, ()))
    assert compiled.cluster.nodes.visit_order.tolist() == [0, 2, 4, 6, 1, 5, 3]


def test_regions_tell_zones_of_one_name_apart() -> None:
    nodes = (
        node("n0", zone="a", region="x"),
        node("n1", zone="a", region="x"),
        node("n2", zone="a", region="y"),
    )
    assert compile_workload(Workload("w", nodes, ())).cluster.nodes.visit_order.tolist() == [0, 2, 1]


@USUAL
@given(workload=workloads())
def test_the_visit_order_equals_the_reference(workload: Workload) -> None:
    order = compile_workload(workload).cluster.nodes.visit_order.tolist()
    assert order == list(round_robin_by_zone(workload.nodes))
    assert sorted(order) == list(range(len(workload.nodes)))


def test_domains_are_numbered_as_they_appear_and_missing_labels_are_none() -> None:
    nodes = (node("n0", zone="west"), node("n1"), node("n2", zone="east"), node("n3", zone="west"))
    spread = (SpreadConstraint(app("x"), ZONE),)
    columns = compile_workload(Workload("w", nodes, (pod("p", spread=spread),))).cluster.nodes
    zone_key = 1 - int(columns.hostname_key[0])
    assert columns.domain[zone_key].tolist() == [0, -1, 1, 0]
    assert columns.domain[int(columns.hostname_key[0])].tolist() == [0, 1, 2, 3]
    assert sorted(columns.domains.tolist()) == [2, 4]


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        (("", "TCP", 80), ("", "TCP", 80), True),
        (("", "", 80), ("0.0.0.0", "TCP", 80), True),
        (("", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.2", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
        (("", "TCP", 80), ("", "UDP", 80), False),
        (("", "TCP", 80), ("", "TCP", 81), False),
    ],
)
def test_port_conflicts(first: tuple[str, str, int], second: tuple[str, str, int], conflict: bool) -> None:
    pods = (pod("a", host_ports=(first,)), pod("b", host_ports=(second,)))
    compiled = compile_workload(Workload("w", (node("n"),), pods))
    classes = compiled.cluster.classes
    a, b = int(classes.port[0]), int(classes.port[-1])
    assert bool(compiled.cluster.ports.conflict[a, b]) is conflict
    assert bool(compiled.cluster.ports.conflict[b, a]) is conflict
    state = empty_state(compiled.cluster)
    place(compiled.cluster, state, 0, 0, 0, 0.0)
    observation = PodObservation(compiled, state, new_scratch(compiled.cluster), 1, 0.0)
    assert bool(observation.refusals()[0]) is conflict


def test_image_locality() -> None:
    """523 MiB on one of two nodes counts half; clamped to 23..1000 MiB per image of the pod."""
    nodes = (
        node("n0", images={"web:latest": 523, "tiny:1": 10}),
        node("n1", images={"huge:2": 5000, "tiny:1": 10}),
    )
    pods = (
        pod("web", images=("web:latest",)),
        pod("tiny", images=("tiny:1",)),
        pod("huge", images=("huge:2",)),
        pod("two", images=("web", "huge:2")),
        pod("none"),
    )
    cluster = compile_workload(Workload("w", nodes, pods)).cluster
    scores = cluster.shapes.image[cluster.classes.shape[cluster.pod_class]].tolist()
    assert cluster.shapes.image_mounted.shape == (0, 2), "no pod mounts an image"
    # web: (261.5 - 23) of 977; huge: 2500 clamped to 1000; two: (261.5 - 23) and (2000 - 23) of 1977.
    assert scores == [[24, 0], [0, 0], [0, 100], [12, 100], [0, 0]]


def test_names_of_images_are_completed_for_pods_and_not_for_nodes() -> None:
    nodes = (node("n0", images={"web": 5000}), node("n1", images={"web:latest": 5000}))
    cluster = compile_workload(Workload("w", nodes, (pod("p", images=("web",)),))).cluster
    assert cluster.shapes.image.tolist() == [[0, 100]]


def test_mounted_images_count_from_1_36_on() -> None:
    nodes = (node("n0", images={"model:1": 1046}), node("n1"))
    spec = replace(pod("p", images=("web",)).spec, image_volumes=("model:1",))
    cluster = compile_workload(Workload("w", nodes, (Pod("p", spec),))).cluster
    assert cluster.shapes.image.tolist() == [[0, 0]]
    # Half of 1046 MiB, less 23, of the 977 that one container is allowed.
    assert cluster.shapes.image_mounted.tolist() == [[51, 0]]


def test_equal_static_constraints_are_one_shape() -> None:
    pods = (pod("a", cpu=1), pod("b", cpu=2), pod("c", cpu=1, node_selector={"disk": "ssd"}))
    compiled = compile_workload(Workload("w", (node("n0", labels={"disk": "ssd"}), node("n1")), pods))
    assert compiled.cluster.classes.shape.tolist() == [0, 0, 1]
    assert compiled.cluster.shapes.allowed.tolist() == [[True, True], [True, False]]
    assert (compiled.cluster.shapes.blocked == 0).tolist() == [[True, True], [True, False]]


def test_terms_with_one_key_and_one_selection_are_shared() -> None:
    web = near("web", ZONE)
    pods = (
        runs("a", "web", anti_affinity=PodAffinity(required=(web,))),
        runs(
            "b",
            "db",
            affinity=PodAffinity(preferred=((7, web),)),
            anti_affinity=PodAffinity(preferred=((3, web),)),
        ),
    )
    terms = compile_workload(Workload("w", (node("n"),), pods)).cluster.terms
    assert terms.selects.tolist() == [[True, False]]
    assert terms.avoid.tolist() == [0] and terms.avoid_start.tolist() == [0, 1, 1]
    assert terms.like_weight.tolist() == [7, -3] and terms.draw_weight.tolist() == [7, -3]
    assert terms.shun_start.tolist() == [0, 1, 1] and terms.feel_start.tolist() == [0, 1, 1]


def test_a_required_term_selects_only_who_matches_all_terms() -> None:
    both = PodAffinity(required=(near("web", ZONE), near("web", HOSTNAME, ("other",))))
    pods = (runs("a", "web"), runs("b", "web", namespace="other"), pod("c", affinity=both))
    terms = compile_workload(Workload("w", (node("n"),), pods)).cluster.terms
    needed = terms.need[terms.need_start[2] : terms.need_start[3]].tolist()
    assert [terms.selects[t].tolist() for t in needed] == [[False] * 3, [False] * 3]
    assert terms.self_sufficient.tolist() == [False, False, False]


@USUAL
@given(workload=workloads())
def test_avoid_terms_select_whom_the_objects_select(workload: Workload) -> None:
    compiled = compile_workload(workload)
    terms = compiled.cluster.terms
    example = {spec: each for each in workload.pods for spec in [each.spec]}
    for c, spec in enumerate(compiled.specs):
        listed = terms.avoid[terms.avoid_start[c] : terms.avoid_start[c + 1]].tolist()
        assert len(listed) == len(spec.anti_affinity.required)
        for t, term in zip(listed, spec.anti_affinity.required, strict=True):
            expected = [pod_term_matches(term, example[spec], example[other]) for other in compiled.specs]
            assert terms.selects[t].tolist() == expected


def test_budgets_protect_labelled_pods_of_their_namespace() -> None:
    pods = (runs("a", "web"), runs("b", "web", namespace="other"), runs("c", "db"), pod("d"))
    budgets = (
        DisruptionBudget("web", app("web"), min_available=1),
        DisruptionBudget("all", Selector(), max_unavailable=0),
    )
    columns = compile_workload(Workload("w", (node("n"),), pods, budgets)).cluster.budgets
    assert columns.selects.tolist() == [[True, False, False, False], [False] * 4]
    assert columns.min_available.tolist() == [1, -1]
    assert columns.max_unavailable.tolist() == [-1, 0]


def test_an_empty_cluster_is_all_free() -> None:
    compiled = compile_workload(
        Workload("w", (node("n0", gpus=2, gpu_model="T4"), node("n1", memory=5)), (pod("p", gpu=(1, 1000)),))
    )
    state = empty_state(compiled.cluster)
    assert state.free[1, 1] == 5 * MIB
    assert state.gpu_left.tolist() == [[1000, 1000], [0, 0]]
    assert state.fragment.tolist() == [0.0, 0.0]
    assert state.first.tolist() == [-1, -1] and state.pod_node.tolist() == [-1]


def test_a_handle_shares_memory_with_its_arrays() -> None:
    conflict = np.zeros((2, 2), dtype=np.bool_)
    handle = pack(Ports(conflict))
    assert np.shares_memory(handle.conflict, conflict)
    conflict[0, 1] = True
    assert handle.conflict[0, 1]


def test_kernels_write_into_the_arrays_that_python_reads() -> None:
    compiled = compile_workload(Workload("w", (node("n", cpu=10),), (pod("p", cpu=4),)))
    state = empty_state(compiled.cluster)
    free = state.free
    place(compiled.cluster, state, 0, 0, 0, 2.5)
    assert free[0, 0] == 6 and state.free is free
    assert state.pod_since[0] == 2.5 and state.first[0] == 0


def test_a_handle_has_the_names_of_its_columns_and_no_others() -> None:
    none = np.zeros(0, dtype=np.int64)
    handle = pack(Budgets(np.zeros((0, 1), dtype=np.bool_), none, none, none))
    assert all(hasattr(handle, name) for name in Budgets._fields)
    with pytest.raises(AttributeError, match="colour"):
        _ = handle.colour  # type: ignore[attr-defined]


def test_nested_handles_share_memory_too() -> None:
    compiled = compile_workload(Workload("w", (node("n"),), (pod("p"),)))
    nodes = compiled.cluster.nodes
    state = empty_state(compiled.cluster)
    assert not np.shares_memory(state.free, nodes.allocatable)
    nodes.allocatable[0, 0] = 1
    assert empty_state(compiled.cluster).free[0, 0] == 1
