"""What is asked of a new object before it is stored: its shape, its namespace, and a pod's priority."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proreus.engine.objects.errors import BadRequest, Cause, Forbidden
from proreus.engine.objects.kinds import NAMESPACE, PRIORITY_CLASS, Kind
from proreus.engine.objects.lifecycle import invalid
from proreus.engine.objects.shelf import Shelf, Standing
from proreus.engine.objects.wants import not_found

_TRUSTED_SECONDS = 1.0
"""So long a namespace or a priority class is believed to be as it was last read."""
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if "
        "necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


class Admission:
    """See the module."""

    def __init__(self, shelf: Shelf, clock: Callable[[], float]) -> None:
        self._shelf, self._clock = shelf, clock
        self._read_at: dict[str, float] = {}

    def built_in(self) -> list[tuple[Kind, dict[str, Any]]]:
        """The objects that every cluster begins with."""
        namespaces = [(NAMESPACE, {"metadata": {"name": name}}) for name in _NAMESPACES]
        priorities = [
            (PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, "description": description})
            for name, value, description in _PRIORITIES
        ]
        return [*namespaces, *priorities]

    async def admit(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        """The object as it may be created: named, in a namespace that takes it, with its priority."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict):
            raise BadRequest("metadata: a map is required", kind=kind.kind)
        if not metadata.get("name") and not metadata.get("generateName"):
            cause = Cause(
                "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
            )
            raise invalid(kind, "", (cause,))
        if kind.namespaced:
            metadata = {**metadata, "namespace": metadata.get("namespace") or "default"}
            await self._check_namespace(kind, metadata)
        else:
            metadata = {key: value for key, value in metadata.items() if key != "namespace"}
        return {**obj, "metadata": metadata}

    async def _check_namespace(self, kind: Kind, metadata: dict[str, Any]) -> None:
        name = metadata["namespace"]
        namespace = await self._recent(NAMESPACE.key("", name))
        if namespace is None:
            raise not_found(NAMESPACE, name)
        if namespace.object.get("status", {}).get("phase") == "Terminating":
            named = metadata.get("name", metadata.get("generateName", ""))
            raise Forbidden(
                f'{kind.resource} "{named}" is forbidden: unable to create new content in namespace {name} '
                "because it is being terminated",
                kind=kind.plural,
                name=named,
                causes=(
                    Cause(
                        "metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"
                    ),
                ),
            )

    async def _recent(self, key: str) -> Standing | None:
        """What stands there, read not longer ago than is trusted."""
        now = self._clock()
        remembered = self._shelf.peek(key)
        if remembered is not None and 0 <= now - self._read_at.get(key, 0.0) < _TRUSTED_SECONDS:
            return remembered
        self._read_at[key] = now
        return await self._shelf.get(key)
