"""Pods and nodes over the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proreus.engine.client.k8s_client import K8sClient
from proreus.engine.objects.conditions import holds
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.resource_amounts import read_amounts, requests_of, total


@dataclass(frozen=True)
class Pod:
    """A pod and where it stands."""

    namespace: str
    name: str
    phase: str
    node: str
    """"": it waits."""
    requests: Mapping[str, int]
    """CPU in thousandths of a core, all else in its unit."""


class PodController:
    """Pods made, found and deleted."""

    def __init__(self, client: K8sClient) -> None:
        self._client = client

    def create(self, manifest: Mapping[str, Any]) -> Pod:
        """Of a Pod manifest."""
        return _pod(self._client.create({"apiVersion": "v1", "kind": "Pod", **manifest}))

    def get(self, name: str, namespace: str = "default") -> Pod:
        """As it is now."""
        return _pod(self._client.get(POD, name, namespace))

    def list(self, namespace: str = "") -> list[Pod]:
        """Of one namespace, or all."""
        return [_pod(obj) for obj in self._client.list(POD, namespace)]

    def delete(self, name: str, namespace: str = "default") -> None:
        """It is asked to end, and goes."""
        self._client.delete(POD, name, namespace)


@dataclass(frozen=True)
class Node:
    """A node, what it has, and what its pods ask for."""

    name: str
    ready: bool
    cordoned: bool
    allocatable: Mapping[str, int]
    """CPU in thousandths of a core, all else in its unit."""
    requested: Mapping[str, int]


class NodeController:
    """Nodes found, and closed to new pods."""

    def __init__(self, client: K8sClient) -> None:
        self._client = client

    def list(self) -> list[Node]:
        """All of them."""
        pods = self._client.list(POD)
        return [_node(obj, pods) for obj in self._client.list(NODE)]

    def get(self, name: str) -> Node:
        """One of them."""
        return _node(self._client.get(NODE, name), self._client.list(POD))

    def cordon(self, name: str) -> None:
        """No new pods."""
        self._client.patch(NODE, name, {"spec": {"unschedulable": True}})

    def uncordon(self, name: str) -> None:
        """New pods again."""
        self._client.patch(NODE, name, {"spec": {"unschedulable": None}})


def _pod(obj: Mapping[str, Any]) -> Pod:
    metadata, status = obj["metadata"], obj.get("status") or {}
    node = str(obj["spec"].get("nodeName") or "")
    return Pod(metadata["namespace"], metadata["name"], status.get("phase", ""), node, requests_of(obj))


def _node(obj: Mapping[str, Any], pods: list[dict[str, Any]]) -> Node:
    name = obj["metadata"]["name"]
    here = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == name
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    return Node(
        name,
        holds(obj, "Ready"),
        bool((obj.get("spec") or {}).get("unschedulable")),
        read_amounts((obj.get("status") or {}).get("allocatable")),
        total(requests_of(pod) for pod in here),
    )
