"""What a scheduler follows of a cluster, in the order in which it is listed, and what it keeps of each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from proreus.engine.scheduler.instructions import Event, ObjectDeleted, ObjectUpdated
from proreus.kubeclient.client import KubeClient, Object, Selected
from proreus.kubeclient.reflector import Change, Reflector, without_history
from proreus.kubeclient.resources import (
    CONFIG_MAPS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)

# Pods come last: what their templates mean depends on the rest, and would have to be read again.
_ORDER = (
    NAMESPACES,
    SERVICES,
    REPLICA_SETS,
    STATEFUL_SETS,
    REPLICATION_CONTROLLERS,
    STORAGE_CLASSES,
    CSI_NODES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
_log = logging.getLogger(__name__)


async def reflectors(client: KubeClient, hear: Callable[[Event], None]) -> list[Reflector]:
    """Followers of all kinds that matter, as far as the server has them, and in the versions that it has."""
    made = []
    for resource in _ORDER:
        versions = ("v1", "v1beta1") if resource is POD_DISRUPTION_BUDGETS else (resource.version,)
        known = await client.discovery.first(resource, versions)
        if known is None:
            _log.info("the server has no %s: nothing of them is known", resource.plural)
            continue
        reflector = Reflector(client, known, trim=_trimmer(known))
        reflector.subscribe(_teller(known.kind, hear))
        made.append(reflector)
    return made


def config_map(client: KubeClient, name: tuple[str, str]) -> Reflector:
    """A follower of one ConfigMap; name: its namespace and name."""
    return Reflector(client, CONFIG_MAPS, Selected(name[0], fields=f"metadata.name={name[1]}"))


def _teller(kind: str, hear: Callable[[Event], None]) -> Callable[[Change], None]:
    def tell(change: Change) -> None:
        hear((ObjectDeleted if change.type == "DELETED" else ObjectUpdated)(kind, change.object))

    return tell


def _trimmer(resource: Resource) -> Callable[[Object], Object]:
    if resource.kind in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        return _only_selector
    if resource.kind == "PodDisruptionBudget" and resource.version == "v1beta1":
        return lambda obj: _as_v1(without_history(obj))
    return without_history


def _only_selector(obj: Object) -> Object:
    """Of an owner of pods, which they are."""
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    kept: Object = {"selector": spec.get("selector")}
    if obj.get("kind") == "ReplicationController":
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        kept["template"] = {"metadata": {"labels": labels}}
    names = ("name", "namespace", "uid", "resourceVersion")
    return {**obj, "metadata": {name: metadata[name] for name in names}, "spec": kept, "status": {}}


def _as_v1(budget: Object) -> Object:
    """A budget of policy/v1beta1 in the words of policy/v1, where an empty selector selects everything."""
    spec = dict(budget.get("spec") or {})
    if not spec.get("selector"):
        spec.pop("selector", None)
    return {**budget, "apiVersion": replace(POD_DISRUPTION_BUDGETS).api_version, "spec": spec}
