"""Kinds of objects by the words of a request: group, version, plural; and which of them a server has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from proreus.kubeclient.errors import NotFound

if TYPE_CHECKING:
    from proreus.kubeclient.client import KubeClient


@dataclass(frozen=True, slots=True)
class Resource:
    """Where objects of one kind are asked for."""

    group: str
    """"" for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of all of them, those of a namespace, or one."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        rest = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part)
        return f"{base}{where}/{self.plural}{rest}"


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")


class Discovery:
    """What a server has, asked for once for each group and version."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._lists: dict[str, frozenset[str]] = {}

    async def has(self, resource: Resource, subresource: str = "") -> bool:
        """Whether the server knows that resource in that version."""
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        if base not in self._lists:
            try:
                told: dict[str, Any] = await self._client.get_path(base)
            except NotFound:
                told = {}
            self._lists[base] = frozenset(item["name"] for item in told.get("resources") or ())
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return name in self._lists[base]

    async def first(self, resource: Resource, versions: Sequence[str]) -> Resource | None:
        """The resource in the first of these versions that the server has; None: in none of them."""
        for version in versions:
            candidate = replace(resource, version=version)
            if await self.has(candidate):
                return candidate
        return None

    async def version(self) -> tuple[int, int]:
        """Of the server, such as (1, 20)."""
        told = await self._client.get_path("/version")
        digits = [
            "".join(filter(str.isdigit, str(told.get(part, "0")))) or "0" for part in ("major", "minor")
        ]
        return int(digits[0]), int(digits[1])
