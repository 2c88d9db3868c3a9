"""Kubernetes objects for the tests of the SchedulingAgent."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: int = 110, **spec: Any) -> Object:
    """A Node."""
    labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": str(pods), **spec.pop("extended", {})}
        },
    }


def pod(name: str, cpu: str = "1", *, namespace: str = "default", uid: str = "", **spec: Any) -> Object:
    """A Pod; labels, annotations and status go where they belong, anything else into its spec."""
    metadata: Object = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    for part in ("labels", "annotations", "ownerReferences", "deletionTimestamp"):
        if part in spec:
            metadata[part] = spec.pop(part)
    status = spec.pop("status", {})
    requests = {"cpu": cpu, "memory": "64Mi", **spec.pop("requests", {})}
    containers = [{"name": "c", "image": "app", "resources": {"requests": requests}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
        "status": status,
    }


def on(obj: Object, node_name: str, **annotations: str) -> Object:
    """The pod as it is once it is bound."""
    metadata = {**obj["metadata"], "annotations": {**obj["metadata"].get("annotations", {}), **annotations}}
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "nodeName": node_name}}
