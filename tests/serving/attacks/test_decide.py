"""Decisions in named fields that would cost more than one request may."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import BASE_COLUMNS, Resources
from proreus.serving.cluster_api.cost import MOST_UNITS, check_cost, cost_of
from proreus.serving.cluster_api.request import DecideRequest
from proreus.serving.cluster_api.schema import to_nodes
from proreus.serving.messages import Refusal, Refused
from proreus.worlds.pods.state.described_cluster import observe
from tests.serving.attacks.harness import FULL, Attacked, needs_proc, size
from tests.serving.door_cases import ask

ROOM = {"cpu": "4", "memory": "8Gi", "pods": 110}
HOST = "kubernetes.io/hostname"


def node(number: int, **fields: Any) -> dict[str, Any]:
    return {"name": f"n{number}", "allocatable": ROOM, **fields}


def term(number: int, key: str = HOST) -> dict[str, Any]:
    condition = {"key": f"k{number}", "operator": "In", "values": ["v"]}
    return {"selector": {"requirements": [condition]}, "topology_key": key}


def own_resources(many: int) -> dict[str, Any]:
    """Kept, so that each makes a column."""
    nodes = [node(k, allocatable={**ROOM, f"x/{k}": 1}) for k in range(many)]
    return {"pod": {"name": "p"}, "nodes": nodes, "keep": True}


def own_terms(many: int) -> dict[str, Any]:
    pods = [
        {"name": f"q{k}", "labels": {f"k{k}": "v"}, "anti_affinity": {"required": [term(k)]}}
        for k in range(many)
    ]
    return {"pod": {"name": "p"}, "nodes": [node(0, pods=pods)]}


def crowded(many: int) -> dict[str, Any]:
    pods = [{"name": f"q{k}"} for k in range(many)]
    return {"pod": {"name": "p", "priority": 5, "requests": {"cpu": "4"}}, "nodes": [node(0, pods=pods)]}


def spread(many: int) -> dict[str, Any]:
    constraint = {"selector": term(0)["selector"]}
    constraints = [{**constraint, "topology_key": f"k{k}"} for k in range(many)]
    nodes = [node(k, labels={f"k{j}": str(k) for j in range(many)}) for k in range(many)]
    return {"pod": {"name": "p", "spread": constraints}, "nodes": nodes}


def ports(many: int) -> dict[str, Any]:
    return {"pod": {"name": "p", "host_ports": [["", "TCP", k + 1] for k in range(many)]}, "nodes": [node(0)]}


def tainted(many: int) -> dict[str, Any]:
    tolerations = [{"key": f"k{k}", "value": "v"} for k in range(many)]
    taints = [{"key": f"t{k}", "effect": "PreferNoSchedule"} for k in range(many)]
    return {
        "pod": {"name": "p", "tolerations": tolerations},
        "nodes": [node(k, taints=taints) for k in range(many)],
    }


def liked(many: int) -> dict[str, Any]:
    likes = [[1, {"labels": {"requirements": [{"key": f"k{k}", "operator": "Exists"}]}}] for k in range(many)]
    return {
        "pod": {"name": "p", "node_affinity": {"preferred": likes}},
        "nodes": [node(k) for k in range(many)],
    }


ATTACKS = {
    "nodes.allocatable": (own_resources, 20_000, 6_000),
    "pod.anti_affinity": (own_terms, 5_000, 2_000),
    "nodes.pods": (crowded, 100_000, 15_000),
    "pod.spread": (spread, 500, 260),
    "pod.host_ports": (ports, 20_000, 6_000),
    "nodes.taints": (tainted, 260, 260),
    "pod.node_affinity": (liked, 3_000, 1_800),
}


@needs_proc
@pytest.mark.parametrize("field", ATTACKS)
def test_what_costs_too_much_is_refused_before_the_work(attacked: Attacked, field: str) -> None:
    make, full, small = ATTACKS[field]
    body = json.dumps(make(size(full, small))).encode()
    with attacked.beside_an_honest_client(least=0.3):
        for _ in range(size(5, 1)):
            reply = ask(attacked.rest, "/v1/decide", body)
            assert (reply.status, reply.json["field"]) == (413, field), reply.body
            assert "units of work" in reply.json["error"]


@needs_proc
def test_what_is_just_allowed_holds_up_nobody(attacked: Attacked) -> None:
    """The most expensive requests that are not refused."""
    bodies = []
    for make, full, small in ATTACKS.values():
        many = size(full, small)
        while True:
            body = json.dumps(make(many)).encode()
            try:
                check_cost(msgspec.json.decode(body, type=DecideRequest), MOST_UNITS / size(1, 4))
            except Refused as refused:
                assert refused.refusal is Refusal.TOO_LARGE
                many = many * 3 // 4
            else:
                bodies.append(body)
                break
    with attacked.beside_an_honest_client():
        for body in bodies if FULL else bodies[:3]:
            assert ask(attacked.rest, "/v1/decide", body).status == 200


def test_a_large_cluster_of_the_ordinary_kind_is_decided_on() -> None:
    """A tenth of 5,000 nodes with ten pods each, every kind away from itself: a tenth of the limit."""
    affinity = [{"required": [{**term(k), "namespaces": ["default"]}]} for k in range(20)]
    nodes = [
        node(
            n,
            labels={HOST: f"n{n}", "zone": f"z{n % 3}"},
            pods=[
                {"name": f"q{n}-{k}", "labels": {f"k{(n + k) % 20}": "v"}, "anti_affinity": affinity[k]}
                for k in range(10)
            ],
        )
        for n in range(500)
    ]
    request = msgspec.convert({"pod": {"name": "p"}, "nodes": nodes}, DecideRequest)
    assert sum(cost_of(request).values()) < MOST_UNITS / 10


@needs_proc
@pytest.mark.parametrize("amount", ["1e999999999", "0" * 100_000 + "1", "9" * 5_000])
def test_amounts_that_are_none_are_refused_by_name(attacked: Attacked, amount: str) -> None:
    request = {"pod": {"name": "p"}, "nodes": [node(0, allocatable={**ROOM, "cpu": amount})]}
    reply = ask(attacked.rest, "/v1/decide", request)
    assert (reply.status, reply.json["field"]) == (400, "nodes[0].allocatable.cpu")
    assert len(reply.body) < 1_000


@needs_proc
def test_amounts_of_all_kinds_do_not_pile_up(attacked: Attacked) -> None:
    before = attacked.memory()
    for k in range(size(300, 30)):
        request = {
            "pod": {"name": "p"},
            "nodes": [node(0, allocatable={**ROOM, "cpu": f"{k}".zfill(1 << 18)})],
        }
        assert ask(attacked.rest, "/v1/decide", request).status == 400
    assert attacked.memory() - before < 100 << 20


@needs_proc
def test_many_pods_in_one_list_are_counted_before_they_are_read(attacked: Attacked) -> None:
    pods = b",".join([b'{"name":""}'] * size(1_000_000, 201_000))
    body = b'{"pod":{"name":"p"},"nodes":[{"name":"n","allocatable":{},"pods":[' + pods + b"]}]}"
    with attacked.beside_an_honest_client(least=0.3):
        reply = ask(attacked.rest, "/v1/decide", body)
    assert (reply.status, reply.json["field"]) == (413, "nodes[0].pods"), reply.body


def test_a_resource_of_its_own_for_each_node_costs_by_its_name_alone() -> None:
    """It took seconds under the interpreter's lock: a table of nodes by resources, row by row."""
    request = msgspec.convert({**own_resources(4_000), "keep": False}, DecideRequest)
    observation = observe(to_nodes(request.nodes), Pod("p", PodSpec(Resources())))
    assert observation.cluster.nodes.allocatable.shape == (4_000, len(BASE_COLUMNS))
    assert cost_of(request)["nodes.allocatable"] == 4_000


@needs_proc
def test_kept_clusters_whose_nodes_name_resources_of_their_own_hold_up_nobody(attacked: Attacked) -> None:
    """2,000 such nodes took 19 s: for each resource all rows were moved. Later ones are new columns, too."""
    body = json.dumps(own_resources(size(2_000, 300))).encode()
    with attacked.beside_an_honest_client():
        for _ in range(size(4, 1)):
            kept = ask(attacked.rest, "/v1/decide", body).json
            session, generation = kept["session"], kept["generation"]
            for number in range(size(10, 3)):
                change = {"change": "update_node", "node": node(0, allocatable={**ROOM, f"y/{number}": 1})}
                question = {
                    "session": session,
                    "generation": generation,
                    "changes": [change],
                    "pod": {"name": "p", "requests": {f"z/{number}": 1}},
                }
                reply = ask(attacked.rest, "/v1/decide", question)
                assert reply.status == 200, reply.body
                generation = reply.json["generation"]
