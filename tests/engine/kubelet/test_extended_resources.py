"""Extended resources of a node: what its agent offers, what others gave it, and who fits."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.kubelet.agent import ResourceAgent
from proreus.engine.kubelet.instructions import StartPod
from proreus.engine.kubelet.node_status import NodeSpec, NodeState, new_node, node_status, with_offers
from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.runtimes.protocol import Capacity
from tests.engine.kubelet.test_agent import WALL, at, pod

DISK = "proreus.io/disk-mbps"
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}
SPEC = NodeSpec("n1", "10.0.0.1")


def offering(**more: str) -> Capacity:
    amounts = ROOM | {name.replace("__", "/").replace("_", "-"): value for name, value in more.items()}
    return Capacity(amounts, amounts)


def with_disk(uid: str, amount: str) -> dict[str, Any]:
    asking = pod(uid)
    asking["spec"]["containers"][0]["resources"]["requests"][DISK] = amount
    return asking


def test_fifty_beside_forty_of_eighty_is_refused_with_the_reason() -> None:
    amounts = ROOM | {DISK: "80"}
    agent = ResourceAgent("n1", Capacity(amounts, amounts), "10.0.0.1")
    assert any(isinstance(order, StartPod) for order in agent.pod(with_disk("first", "40"), at(0)))
    orders = agent.pod(with_disk("second", "50"), at(1))
    told = next(order for order in orders if isinstance(order, RecordEvent))
    assert told.reason == f"OutOf{DISK}"
    assert told.message.endswith("requested: 50, used: 40, capacity: 80")
    assert not any(isinstance(order, StartPod) for order in orders)
    assert any(isinstance(order, StartPod) for order in agent.pod(with_disk("third", "40"), at(2)))


def test_what_a_patch_gave_the_node_counts_for_its_agent() -> None:
    agent = ResourceAgent("n1", Capacity(ROOM, ROOM), "10.0.0.1")
    assert not any(isinstance(order, StartPod) for order in agent.pod(with_disk("early", "1"), at(0)))
    agent.offers({"status": {"allocatable": {**ROOM, DISK: "5", "cpu": "900"}}})
    assert any(isinstance(order, StartPod) for order in agent.pod(with_disk("fits", "5"), at(1)))
    assert not any(isinstance(order, StartPod) for order in agent.pod(with_disk("late", "1"), at(2)))
    too_large = agent.pod(pod("large", cpu="100"), at(3))
    assert not any(isinstance(order, StartPod) for order in too_large), "of CPU the agent itself knows"


def test_a_resource_that_the_node_knows_nothing_of_is_the_clusters() -> None:
    agent = ResourceAgent("n1", Capacity(ROOM, ROOM), "10.0.0.1")
    asking = pod("u1")
    asking["spec"]["containers"][0]["resources"]["requests"]["scheduling.k8s.io/foo"] = "3"
    assert any(isinstance(order, StartPod) for order in agent.pod(asking, at(0)))


def test_a_patched_amount_outlives_heartbeats_and_another_start() -> None:
    node = new_node(SPEC, NodeState(offering(example_com__own="2")), WALL)
    for field in ("capacity", "allocatable"):
        node["status"][field]["scheduling.k8s.io/foo"] = "5"
        node["status"][field]["cpu"] = "900"
    for capacity in (offering(example_com__own="2"), offering()):
        status = node_status(node, SPEC, NodeState(capacity), WALL + 10)
        assert status["capacity"]["scheduling.k8s.io/foo"] == "5"
        assert status["allocatable"]["scheduling.k8s.io/foo"] == "5"
        assert status["allocatable"]["cpu"] == "8", "what the agent measures is its own matter"


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_what_the_agent_offers_no_longer_goes(field: str) -> None:
    node = new_node(SPEC, NodeState(offering(example_com__own="2")), WALL)
    assert node["status"][field]["example-com/own"] == "2"
    node["status"] = node_status(node, SPEC, NodeState(offering()), WALL + 10)
    assert "example-com/own" not in node["status"][field]
    node = with_offers(node, offering())
    node["status"][field]["example-com/own"] = "7"  # now it is somebody's gift
    assert node_status(node, SPEC, NodeState(offering()), WALL + 20)[field]["example-com/own"] == "7"
