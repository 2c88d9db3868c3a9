"""What is asked of a new object before it is stored: its shape, its namespace, and a pod's priority."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proreus.engine.objects.error_messages import forbidden, invalid, not_found
from proreus.engine.objects.errors import BadRequest, Cause
from proreus.engine.objects.kinds import LEASE_NAMESPACE, NAMESPACE, POD, PRIORITY_CLASS, Kind
from proreus.engine.objects.object_cache import ObjectCache, StoredObject
from proreus.engine.objects.offload import offload
from proreus.engine.objects.schema.structure import shaped, with_spec

_TRUSTED_SECONDS = 1.0
"""So long a namespace or a priority class is believed to be as it was last read."""
_NAMESPACES = ("default", "kube-system", "kube-public", LEASE_NAMESPACE)
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
    def __init__(self, cache: ObjectCache, clock: Callable[[], float]) -> None:
        self._cache, self._clock = cache, clock
        self._read_at: dict[str, float] = {}
        self._priorities: dict[str, dict[str, Any]] = {}
        self._priorities_read_at: float | None = None

    def built_in(self) -> list[tuple[Kind, dict[str, Any]]]:
        """The objects that every cluster begins with."""
        namespaces = [(NAMESPACE, {"metadata": {"name": name}}) for name in _NAMESPACES]
        priorities = [
            (PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, "description": description})
            for name, value, description in _PRIORITIES
        ]
        return [*namespaces, *priorities]

    async def admit(self, kind: Kind, obj: dict[str, Any], size: int) -> dict[str, Any]:
        """The object as it may be created: of its kind's structure, and as `place` leaves it."""
        return await self.place(kind, (await offload(size, lambda: shaped(kind, obj))).object)

    async def place(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        """An object of the right structure: named, in a namespace that takes it, with its priority."""
        obj = with_spec(kind, obj)
        metadata = obj.get("metadata", {})
        if not metadata.get("name") and not metadata.get("generateName"):
            cause = Cause(
                "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
            )
            raise invalid(kind, "", (cause,))
        if metadata.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created", kind=kind.kind)
        if kind.namespaced:
            metadata = {**metadata, "namespace": metadata.get("namespace") or "default"}
            await self._check_namespace(kind, metadata)
        elif "namespace" in metadata:
            metadata = {key: value for key, value in metadata.items() if key != "namespace"}
        admitted = {**obj, "metadata": metadata}
        return await self._with_priority(admitted) if kind is POD else admitted

    def forget_priorities(self) -> None:
        """A priority class was written here: read them again."""
        self._priorities_read_at = None

    async def _check_namespace(self, kind: Kind, metadata: dict[str, Any]) -> None:
        name = metadata["namespace"]
        namespace = await self._recent(NAMESPACE.key("", name))
        if namespace is None:
            raise not_found(NAMESPACE, name)
        if namespace.object.get("status", {}).get("phase") == "Terminating":
            cause = Cause(
                "metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"
            )
            raise forbidden(
                kind,
                metadata.get("name", metadata.get("generateName", "")),
                f"unable to create new content in namespace {name} because it is being terminated",
                (cause,),
            )

    async def _with_priority(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the priority of its class, or of the class that is everybody's default."""
        spec = pod.get("spec", {})
        named, name = spec.get("priorityClassName", ""), pod["metadata"].get("name", "")
        classes = await self._classes(named)
        chosen = classes.get(named) if named else _default_class(classes)
        if named and chosen is None:
            raise forbidden(POD, name, f"no PriorityClass with name {named} was found")
        value = chosen["value"] if chosen else 0
        if spec.get("priority", value) != value:
            raise forbidden(
                POD,
                name,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
        decided = {"priority": value, "preemptionPolicy": spec.get("preemptionPolicy", policy)}
        if chosen and not named:
            decided["priorityClassName"] = chosen["metadata"]["name"]
        return {**pod, "spec": {**spec, **decided}}

    async def _classes(self, named: str) -> dict[str, dict[str, Any]]:
        """All priority classes, read not longer ago than is trusted; again where that one is missing."""
        now = self._clock()
        read_at = self._priorities_read_at
        trusted = read_at is not None and 0 <= now - read_at < _TRUSTED_SECONDS
        if not trusted or (named and named not in self._priorities):
            listed = await self._cache.list(PRIORITY_CLASS.prefix, after="", limit=0, revision=0)
            objects = [self._cache.read(entry).object for entry in listed.entries]
            self._priorities = {
                priority_class["metadata"]["name"]: priority_class for priority_class in objects
            }
            self._priorities_read_at = now
        return self._priorities

    async def _recent(self, key: str) -> StoredObject | None:
        """What stands there, read not longer ago than is trusted."""
        now = self._clock()
        remembered = self._cache.peek(key)
        if remembered is not None and 0 <= now - self._read_at.get(key, 0.0) < _TRUSTED_SECONDS:
            return remembered
        stored_object = await self._cache.get(key)
        if stored_object is None:  # names of what is not there must not pile up
            self._read_at.pop(key, None)
        else:
            self._read_at[key] = now
        return stored_object


def _default_class(classes: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The lowest of those that say they are the default, as Kubernetes chooses."""
    stated = [class_ for class_ in classes.values() if class_.get("globalDefault")]
    return min(stated, key=lambda class_: (class_["value"], class_["metadata"]["name"]), default=None)
