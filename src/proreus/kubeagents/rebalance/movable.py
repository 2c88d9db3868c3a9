"""Which pods may be evicted: only those that somebody makes again, and that nobody asked to leave alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
_MADE_AGAIN = ("ReplicaSet", "StatefulSet", "ReplicationController")
_ON_EVERY_NODE = ("DaemonSet", "Node")
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KEEP = "proreus.io/rebalance"
"""`keep` on a pod: it stays where it is."""


@dataclass(frozen=True)
class MovableOptions:
    """Who is left alone."""

    excluded: frozenset[str] = frozenset({"kube-system"})
    """Namespaces of which no pod is touched."""
    local_data: bool = False
    """Whether pods may lose what they keep in an emptyDir or on their node's disk."""


def is_daemon(pod: Object) -> bool:
    """Whether it is on its node whatever a scheduler does."""
    return any(owner.get("kind") in _ON_EVERY_NODE for owner in pod["metadata"].get("ownerReferences") or ())


def why_not(pod: Object, options: MovableOptions) -> str:
    """Why a pod may not be evicted; "": it may."""
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    if metadata.get("namespace", "default") in options.excluded:
        return "its namespace is excluded"
    if "deletionTimestamp" in metadata:
        return "it is on its way out"
    if owner is None:
        return "nobody would make it again"
    if owner.get("kind") not in _MADE_AGAIN:
        return f"it is a {owner.get('kind')}'s"
    if annotations.get(_SAFE) == "false" or annotations.get(KEEP) == "keep":
        return "an annotation says to leave it alone"
    if not options.local_data and any(
        "hostPath" in volume or "emptyDir" in volume for volume in spec.get("volumes") or ()
    ):
        return "it keeps data on its node (--local-data gives them up)"
    return ""
