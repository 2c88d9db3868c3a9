"""A node as its agent tells of it: the Node object, and the Lease that shows that it lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.kubelet.usage.reporter import NodeLoad
from proreus.engine.objects.conditions import Condition, holds, with_conditions
from proreus.engine.objects.kinds import LEASE, LEASE_NAMESPACE, NODE
from proreus.engine.objects.metadata import Object, name_of
from proreus.engine.objects.timestamps import micro_timestamp, timestamp
from proreus.engine.runtimes.protocol import Capacity, Image
from proreus.engine.runtimes.stats import CPU_DEVIATION, USED_CPU, USED_MEMORY

LEASE_SECONDS = 40
"""So long a lease is good; its holder renews it every quarter of that."""
_MOST_IMAGES = 50
OFFERED = "proreus.io/offered-resources"
"""Annotation of a Node: the extended resources that its agent offers; the others were given to it."""
_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "",
    "kernelVersion": "",
    "kubeProxyVersion": "",
    "kubeletVersion": "",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "",
    "systemUUID": "",
}
"""Clients refuse a node without any of these; what its runtime does not know is empty."""
_HEALTHY = (
    Condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    Condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    Condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    Condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True)
class NodeSpec:
    """What a node is called and labelled."""

    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class NodeState:
    """What a node has and holds, and how it is, as its runtime tells."""

    capacity: Capacity
    images: Sequence[Image] = ()
    trouble: str = ""
    """Why it can run nothing now; "": it can."""
    disk_pressure: str = ""
    """What its disk lacks; "": nothing."""


def new_node(spec: NodeSpec, state: NodeState, now: float) -> Object:
    """The Node object that registers it."""
    capacity = state.capacity
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": capacity.info.get("architecture", "amd64"),
        **spec.labels,
    }
    made: dict[str, Any] = {"taints": [dict(taint) for taint in spec.taints]} if spec.taints else {}
    node = {
        "apiVersion": NODE.api_version,
        "kind": NODE.kind,
        "metadata": {"name": spec.name, "labels": labels},
        "spec": made,
    }
    return with_offers({**node, "status": node_status(node, spec, state, now)}, capacity)


def node_status(standing: Mapping[str, Any], spec: NodeSpec, state: NodeState, now: float) -> dict[str, Any]:
    """The status of a node that is heard of; conditions of others stay."""
    capacity, images = state.capacity, state.images
    before = standing.get("status") or {}
    moment = timestamp(now)
    conditions = with_conditions(before.get("conditions") or (), _conditions(state), now)
    ours = {condition.type for condition in _HEALTHY}
    for condition in conditions:
        if condition.get("type") in ours:
            condition["lastHeartbeatTime"] = moment
    status = {
        **before,
        "capacity": _with_given(standing, "capacity", capacity.amounts),
        "allocatable": _with_given(standing, "allocatable", capacity.allocatable),
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": spec.address},
            {"type": "Hostname", "address": spec.name},
        ],
        "nodeInfo": {**_INFO, **capacity.info},
    }
    status.pop("images", None)
    if images:
        largest = sorted(images, key=lambda image: (-image.size, image.names))[:_MOST_IMAGES]
        status["images"] = [{"names": list(image.names), "sizeBytes": image.size} for image in largest]
    return status


def _with_given(standing: Mapping[str, Any], field: str, own: Mapping[str, str]) -> dict[str, str]:
    """What the agent knows of the node, and extended resources that somebody else has given it.

    What the agent itself offered before, and now does not, is no gift.
    """
    stated = (standing.get("status") or {}).get(field) or {}
    annotations = standing["metadata"].get("annotations") or {}
    offered = annotations.get(OFFERED, "").split(",")
    given = {name: amount for name, amount in stated.items() if "/" in name and name not in (*own, *offered)}
    return {**given, **own}


def offered_annotation(capacity: Capacity) -> str:
    """The extended resources that the agent offers, for whoever comes after it."""
    return ",".join(sorted(name for name in capacity.amounts if "/" in name))


def with_offers(node: Object, capacity: Capacity) -> Object:
    """The node with the annotation; itself where it stands already."""
    annotations = node["metadata"].get("annotations") or {}
    offers = offered_annotation(capacity)
    if annotations.get(OFFERED, "") == offers:
        return node
    return {**node, "metadata": {**node["metadata"], "annotations": {**annotations, OFFERED: offers}}}


def _conditions(state: NodeState) -> list[Condition]:
    """As the kubelet tells them."""
    conditions = {condition.type: condition for condition in _HEALTHY}
    if state.disk_pressure:
        conditions["DiskPressure"] = Condition(
            "DiskPressure",
            "True",
            "KubeletHasDiskPressure",
            f"kubelet has disk pressure: {state.disk_pressure}",
        )
    if state.trouble:
        conditions["Ready"] = Condition("Ready", "False", "KubeletNotReady", state.trouble)
    return list(conditions.values())


def looks_well(node: Mapping[str, Any]) -> bool:
    """Whether the API shows it as its agent sees it."""
    return holds(node, "Ready")


def new_lease(node: str, now: float) -> Object:
    """The first sign of life."""
    moment = micro_timestamp(now)
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": node, "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": moment,
            "renewTime": moment,
        },
    }


def renewed_lease(lease: Object, load: NodeLoad, now: float) -> Object:
    """A sign of life, and what is used."""
    annotations = {
        **(lease["metadata"].get("annotations") or {}),
        USED_CPU: f"{load.cpu}m",
        USED_MEMORY: str(load.memory),
        CPU_DEVIATION: f"{load.deviation}m",
    }
    return {
        **lease,
        "metadata": {**lease["metadata"], "annotations": annotations},
        "spec": {**lease["spec"], "renewTime": micro_timestamp(now), "holderIdentity": name_of(lease)},
    }
