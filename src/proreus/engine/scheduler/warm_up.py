"""Compiles everything that scheduling calls, before the first pod has to wait for it."""

from __future__ import annotations

from functools import cache
from typing import Any

from proreus.engine.scheduler.core import SchedulingCore
from proreus.engine.scheduler.instructions import Object, ObjectDeleted, ObjectUpdated


@cache
def warm_up_scheduling() -> None:
    """Once a process, a small life of one node: a pod is bound, others wait, evict, and are woken."""
    core = SchedulingCore()
    core.handle(ObjectUpdated("Node", _node("0")), 0.0)
    low, high, apart = _pod("low"), _pod("high", priority=9), _pod("apart", affinity=_APART)
    core.handle(ObjectUpdated("Pod", _pod("nowhere")), 0.0)
    core.cycle(0.0, 9)
    core.handle(ObjectUpdated("Node", _node("1")), 1.0)
    for obj in (low, apart, high):
        core.handle(ObjectUpdated("Pod", obj), 1.0)
        core.cycle(100.0, 9)
    core.handle(ObjectDeleted("Pod", low), 200.0)
    core.cycle(300.0, 9)
    # Others wait while a pod comes to the node and leaves it again.
    core.handle(ObjectUpdated("Pod", _pod("waiting", affinity=_APART)), 400.0)
    core.cycle(500.0, 9)
    placed = _pod("placed", nodeName="node")
    core.handle(ObjectUpdated("Pod", placed), 600.0)
    core.handle(ObjectDeleted("Pod", placed), 700.0)


_APART: Object = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def _node(cpu: str) -> Object:
    size = {"cpu": cpu, "memory": "1Gi", "pods": "9"}
    return {"metadata": {"name": "node"}, "spec": {}, "status": {"allocatable": size}}


def _pod(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "a"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}
