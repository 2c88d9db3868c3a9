"""A recorded week as Kubernetes objects, as an API server would tell of it afterwards.

The pods of a workload are placed by the kube rules of the simulator, and become objects that state what
became of them: conditions, start times and the ends of their containers. Creation times are an API server's
own; an importer goes by the earliest moment that a pod names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod
from proreus.model.workload import Workload
from proreus.worlds import world
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.state.compile import compile_workload
from tests.kube.control_plane import ControlPlane, node, pod

Object = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """A pod, where it went, and its status."""

    pod: Object
    node: str
    status: Object


@dataclass(frozen=True)
class Week:
    """What is written to an API server, or into a file."""

    nodes: list[Object]
    pods: list[Told]

    def objects(self) -> Iterator[Object]:
        """As `kubectl get -o json` lists them."""
        yield from self.nodes
        for told in self.pods:
            spec = {**told.pod["spec"], **({"nodeName": told.node} if told.node else {})}
            created = told.status.get("startTime") or told.status["conditions"][0]["lastTransitionTime"]
            metadata = {**told.pod["metadata"], "creationTimestamp": created}
            yield {**told.pod, "metadata": metadata, "spec": spec, "status": told.status}


def as_kubernetes(workload: Workload, begin: float, length: float) -> Week:
    """The workload's first `length` seconds, as if they had begun at that moment."""
    scenario = PodScenario(_Given(workload))
    pods_world = world("pods")
    policy = pods_world.policies(scenario).make("kube", None, 0)
    played = pods_world.play(scenario, compile_workload(workload), policy, 0, picture=False)
    assert isinstance(played.outcome, PodsOutcome)
    rows = {row[0]: row for row in played.outcome.log}
    pods = []
    for one in workload.pods:
        _, _, where, arrival, start, finish, _ = rows[one.name]
        pods.append(_told(one, where, (begin + arrival, begin + start, begin + finish), begin + length))
    return Week([_node(one) for one in workload.nodes], pods)


def write_week(plane: ControlPlane, week: Week) -> None:
    """All objects, bound and with their status."""
    plane.add_nodes(week.nodes)
    plane.create_many("/api/v1/namespaces/default/pods", [told.pod for told in week.pods])
    for told in week.pods:
        path = f"/api/v1/namespaces/default/pods/{told.pod['metadata']['name']}"
        if told.node:
            target = {"kind": "Node", "name": told.node}
            binding = {"metadata": {"name": told.pod["metadata"]["name"]}, "target": target}
            plane.create(f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **binding})
        plane.patch(f"{path}/status", {"status": told.status})


@dataclass(frozen=True)
class _Given:
    workload: Workload

    @property
    def name(self) -> str:
        return self.workload.name

    def load(self, seed: int) -> Workload:
        return self.workload


def _node(one: Node) -> Object:
    size = one.allocatable
    amounts = {"cpu": f"{size.cpu}m", "memory": str(size.memory), "pods": str(size.pods or 110)}
    if one.gpu_count:
        amounts["nvidia.com/gpu"] = str(one.gpu_count)
    labels = dict(one.labels)
    if one.gpu_model:
        labels["proreus.io/gpu-model"] = one.gpu_model
    return node(one.name, amounts, labels=labels)


def _told(one: Pod, where: str, times: tuple[float, float, float], end: float) -> Told:
    created, start, finish = times
    requests = one.spec.requests
    asked = {"cpu": f"{requests.cpu}m", "memory": str(requests.memory)}
    gpu, annotations = one.spec.gpu, {}
    if gpu.count and gpu.milli == GPU_WHOLE:
        asked["nvidia.com/gpu"] = str(gpu.count)
    elif gpu.count:
        annotations = {"proreus.io/gpu-milli": str(gpu.milli), "proreus.io/gpu-count": str(gpu.count)}
    if gpu.count and gpu.models:
        annotations["proreus.io/gpu-models"] = ",".join(gpu.models)
    made = pod(one.name, asked, annotations=annotations, schedulerName="nobody")
    if "nvidia.com/gpu" in asked:
        made["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": asked["nvidia.com/gpu"]}
    ran = bool(where) and start == start and start < end  # NaN: it never did
    if not ran:
        waits = {"type": "PodScheduled", "status": "False", "lastTransitionTime": _text(created)}
        return Told(made, "", {"phase": "Pending", "conditions": [waits]})
    status: Object = {
        "phase": "Running",
        "startTime": _text(start),
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": _text(start)}],
    }
    if finish == finish and finish <= end:
        terminated = {"exitCode": 0, "startedAt": _text(start), "finishedAt": _text(finish)}
        container = {
            "name": "main",
            "image": "pause:3.9",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        status |= {"phase": "Succeeded", "containerStatuses": [container]}
    return Told(made, where, status)


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
