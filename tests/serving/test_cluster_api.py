"""Decisions in named fields: any cluster size, any policy of the catalogue, reasons, refusals by field."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from proreus.model.decision import Decision, Place
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.policies.protocol import Explains
from proreus.serving.client.remote_policy import RemotePolicy, request_of
from proreus.serving.client.rest import RestClient
from proreus.serving.cluster_api.decide import NamedDecisions, answer
from proreus.serving.cluster_api.request import DecideRequest
from proreus.serving.cluster_api.schema import to_nodes, to_pod
from proreus.serving.metrics import Measurements
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.state.described_cluster import observe
from proreus.worlds.pods.state.observation import PodObservation
from tests.serving.door_cases import Doors, ask
from tests.worlds.pods.strategies import workloads

REQUEST: dict[str, Any] = {
    "pod": {"name": "web", "requests": {"cpu": "500m", "memory": "1Gi"}},
    "nodes": [
        {"name": "a", "allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110}, "used": {"cpu": "3"}},
        {"name": "b", "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        {"name": "c", "allocatable": {"cpu": "250m", "memory": "8Gi", "pods": 5}},
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The request with one value put in, by a path such as nodes.0.name."""
    request = copy.deepcopy(REQUEST)
    *parents, last = path.split(".")
    place: Any = request
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
    place[last] = value
    return request


def observed(request: DecideRequest) -> PodObservation:
    """What the service sees of a request."""
    assert request.pod is not None
    return observe(to_nodes(request.nodes), to_pod(request.pod, "pod"), request.waiting)


def test_the_fuller_node_is_taken_and_the_reasons_are_given(doors: Doors) -> None:
    reply = ask(doors.rest, "/v1/decide", REQUEST)
    found = reply.json
    assert (found["decision"], found["node"], found["action"]) == ("place", "a", 0)
    assert (found["policy"], found["decided_by"]) == ("best_fit", "policy")
    verdicts = {verdict["node"]: verdict for verdict in found["verdicts"]}
    assert "NodeResourcesFit" in verdicts["c"]["refused_by"] and verdicts["c"]["scores"] == {}
    assert verdicts["a"]["total"] > verdicts["b"]["total"]
    brief = ask(doors.rest, "/v1/decide", {**REQUEST, "explain": False}).json
    assert brief["verdicts"] is None and brief["node"] == "a"


def test_preemption_names_its_victims(doors: Doors) -> None:
    request = changed("pod.priority", 10)
    request["nodes"] = [
        {
            "name": "a",
            "allocatable": {"cpu": 1, "memory": "2Gi", "pods": 10},
            "pods": [{"name": "low", "requests": {"cpu": "800m"}}],
        }
    ]
    found = ask(doors.rest, "/v1/decide", request).json
    assert (found["decision"], found["node"], found["victims"]) == ("preempt", "a", ["low"])
    request["pod"]["may_preempt"] = False
    found = ask(doors.rest, "/v1/decide", request).json
    assert (found["decision"], found["node"], found["victims"]) == ("delay", None, [])


def test_gpus_are_named(doors: Doors) -> None:
    request = changed("pod.gpu", {"count": 1, "milli": 500})
    request["nodes"][0]["allocatable"]["nvidia.com/gpu"] = 2
    request["nodes"][0]["gpu_used"] = [700, 300]
    found = ask(doors.rest, "/v1/decide", request).json
    assert (found["node"], found["devices"]) == ("a", [1])


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("pod.requests.cpu", "lots", "pod.requests.cpu"),
        ("pod.requests.cpu", "-1", "pod.requests.cpu"),
        ("pod.requests.memory", "1e400", "pod.requests.memory"),
        ("pod.requests", 5, "pod.requests"),
        ("pod.colour", "red", "pod.colour"),
        ("pod.gpu", {"milli": 1001}, "pod.gpu.milli"),
        ("pod.priority", 2**40, "pod.priority"),
        ("pod.tolerations", [{"effect": "Sometimes"}], "pod.tolerations[0].effect"),
        ("pod.spread", [{"selector": {}, "topology_key": "z", "max_skew": 0}], "pod.spread[0].max_skew"),
        ("nodes", [], "nodes"),
        ("nodes.1.name", "a", "nodes[1].name"),
        ("nodes.2.allocatable.cpu", None, "nodes[2].allocatable[...]"),
        ("nodes.2.allocatable.cpu", "x", "nodes[2].allocatable.cpu"),
        ("nodes.0.used", {"nvidia.com/gpu": 1}, "nodes[0].used.nvidia.com/gpu"),
        ("nodes.0.allocatable", {"nvidia.com/gpu": 100}, "nodes[0]"),
        ("nodes.0.gpu_used", [5], "nodes"),
        ("nodes.0.pods", [{"name": "g", "gpu": {"count": 1}}], "nodes"),
        ("nodes.0.taints", [{"key": "k"}], "nodes[0].taints[0].effect"),
        ("waiting", -1, "waiting"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_field(doors: Doors, path: str, value: Any, field: str) -> None:
    reply = ask(doors.rest, "/v1/decide", changed(path, value))
    assert (reply.status, reply.json["field"]) == (400, field), reply.json


@pytest.mark.parametrize("name", POLICIES.names)
def test_every_policy_of_the_catalogue_can_answer(name: str) -> None:
    named = NamedDecisions(name, 60.0, Measurements())
    request = msgspec.convert(REQUEST, DecideRequest)
    first, again = named.decide(request, 7, 60.0), named.decide(request, 7, 60.0)
    assert first == again
    assert first.decision == "place" and first.node in ("a", "b") and first.decided_by == "policy"


def test_a_policy_that_fails_or_is_slow_leaves_it_to_the_rule() -> None:
    measurements = Measurements()
    named = NamedDecisions("best_fit", 60.0, measurements)
    named.warm_up()
    request = msgspec.convert(REQUEST, DecideRequest)
    assert named.decide(request, 0, 0.0).decided_by == "rule"

    class Wrong:
        name = "wrong"

        def decide(self, observation: PodObservation) -> Decision:
            return Place(2)

        def fresh(self, seed: int) -> Wrong:
            return self

    named.policy = Wrong()
    decide_answer = named.decide(msgspec.structs.replace(request, explain=False), 0, 60.0)
    assert (decide_answer.decided_by, decide_answer.policy) == ("rule", "kube")
    assert measurements.counted("proreus_fallbacks", reason="deadline") == 1
    assert measurements.counted("proreus_fallbacks", reason="error") == 1


@pytest.mark.parametrize("devices", [0b100, 0b11, 0b01])
def test_gpus_that_a_policy_names_are_those_that_the_node_has(devices: int) -> None:
    """The node has two, the first is taken; the pod asks for one."""

    class Names:
        name = "names"

        def decide(self, observation: PodObservation) -> Decision:
            return Place(0, devices)

        def fresh(self, seed: int) -> Names:
            return self

    named = NamedDecisions("best_fit", 60.0, Measurements())
    named.policy = Names()
    room = {"cpu": 4, "memory": "8Gi", "pods": 9, "nvidia.com/gpu": 2}
    request = {
        "pod": {"name": "p", "requests": {"nvidia.com/gpu": 1}},
        "nodes": [{"name": "a", "allocatable": room, "gpu_used": [1000]}],
    }
    decide_answer = named.decide(msgspec.convert(request, DecideRequest), 0, 60.0)
    assert (decide_answer.decided_by, decide_answer.devices) == ("rule", [1])
    assert "may not have these GPUs" in named.trouble


@settings(max_examples=15)
@given(workloads(most_pods=12))
def test_an_observation_survives_the_journey_in_named_fields(workload: Workload) -> None:
    policy, rule = make_policy("kube"), make_policy("best_fit")

    def look(observation: PodObservation) -> None:
        wire = msgspec.json.decode(
            msgspec.json.encode(request_of(observation, explain=True)), type=DecideRequest
        )
        pod_observation = observed(wire)
        assert pod_observation.subject.spec == observation.subject.spec
        assert pod_observation.refusals().tolist() == observation.refusals().tolist()
        here = answer(rule.name, observation, rule.decide(observation))
        there = answer(rule.name, pod_observation, rule.decide(pod_observation))
        assert (here.decision, here.node, here.devices) == (there.decision, there.node, there.devices)

    simulate(compile_workload(workload), policy, inspect=look)


@settings(max_examples=20)
@given(workload=workloads(most_pods=10))
def test_a_remote_policy_plays_as_the_local_one(doors: Doors, workload: Workload) -> None:
    """Preemption and budgets included: the service is told what runs, and forgets nothing."""
    with RestClient(doors.url) as client:
        remote = simulate(compile_workload(workload), RemotePolicy(client))
    local = simulate(compile_workload(workload), make_policy("best_fit"))
    assert [row[:3] for row in remote.log] == [row[:3] for row in local.log]


def test_pods_that_share_a_name_are_described_anew_each_time(doors: Doors) -> None:
    room = Resources(cpu=2000, memory=GIB, pods=10)
    pods = tuple(Pod("twin", PodSpec(Resources(cpu=cpu))) for cpu in (1500, 400, 1500))
    workload = Workload("twins", (Node("a", room), Node("b", room)), pods)
    with RestClient(doors.url) as client:
        remote = simulate(compile_workload(workload), RemotePolicy(client))
    local = simulate(compile_workload(workload), make_policy("best_fit"))
    assert [row[:3] for row in remote.log] == [row[:3] for row in local.log]
    assert len(remote.log) == 3


def test_a_remote_policy_explains(doors: Doors) -> None:
    request = msgspec.convert(REQUEST, DecideRequest)
    observation = observed(request)
    with RestClient(doors.url) as client:
        explained = RemotePolicy(client).explain(observation)
    local = make_policy("best_fit")
    assert isinstance(local, Explains)
    expected = local.explain(observation)
    assert explained.decision == expected.decision
    assert explained.verdicts == expected.verdicts
