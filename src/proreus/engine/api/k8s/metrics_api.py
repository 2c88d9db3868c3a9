"""`metrics.k8s.io`: NodeMetrics and PodMetrics as a metrics server hands them out, for `kubectl top`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.api.k8s.negotiation import form_of
from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.usage import MeasuredUsage, NodeMeasured, PodMeasured
from proreus.engine.objects.kinds import NODE, NODE_METRICS, POD, POD_METRICS, Kind
from proreus.engine.objects.selectors import selection_asked

WINDOW = "10s"
"""Nodes measure themselves so often: their use is a mean over this."""


class MetricsObjects:
    """Read only: a list, or one of it."""

    def __init__(self, measured: MeasuredUsage) -> None:
        self._measured = measured

    async def get(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """Of one node or pod."""
        if target.kind is NODE_METRICS:
            metrics = node_metrics(await self._measured.node(target.name))
        else:
            metrics = pod_metrics(await self._measured.pod(target.namespace, target.name))
        return Reply.of(form_of(asked.accept, "").one(target.kind, metrics))

    async def list(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """Of all, or of those that were selected by their own labels and fields."""
        form = form_of(asked.accept, "")
        labels, fields = asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", "")
        if target.kind is NODE_METRICS:
            chosen = await selection_asked(NODE, labels, fields)
            nodes = await self._measured.nodes()
            items = [node_metrics(node) for node in nodes if chosen.matches(node.node)]
        else:
            chosen = await selection_asked(POD, labels, fields)
            pods = await self._measured.pods(target.namespace)
            items = [pod_metrics(pod) for pod in pods if chosen.matches(pod.pod)]
        return Reply.of(form.many(target.kind, items, {}))


def node_metrics(measured: NodeMeasured) -> dict[str, Any]:
    """As Kubernetes has it."""
    return {
        **_measured(NODE_METRICS, measured.node, measured.at),
        "usage": _usage(measured.use.cpu, measured.use.memory),
    }


def pod_metrics(measured: PodMeasured) -> dict[str, Any]:
    """As Kubernetes has it."""
    return {
        **_measured(POD_METRICS, measured.pod, measured.at),
        "containers": [
            {"name": use.container, "usage": _usage(use.cpu, use.memory)} for use in measured.containers
        ],
    }


def _measured(kind: Kind, of: Mapping[str, Any], at: str) -> dict[str, Any]:
    moment = at.partition(".")[0].rstrip("Z") + "Z"  # leases have microseconds, these have not
    metadata = {"name": of["metadata"]["name"], "creationTimestamp": moment}
    for part in ("namespace", "labels"):
        if part in of["metadata"]:
            metadata[part] = of["metadata"][part]
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "timestamp": moment,
        "window": WINDOW,
    }


def _usage(cpu: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": f"{memory // 1024}Ki"}
