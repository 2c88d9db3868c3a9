"""Kubernetes objects as the model's, for the SchedulingAgent: each pod template is read once.

What a pod template means depends on namespaces (their labels), and on the Services and owners that select
its pods (the scheduler's own spread constraints). Their changes come in here too, and the answer says which
pods have to be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from proreus.data.cursor import Entry
from proreus.data.json_tree import entry_of
from proreus.engine.scheduler.instructions import Object
from proreus.engine.scheduler.volumes import NO_NEEDS, VolumeNeeds, with_volumes
from proreus.kube.budgets import read_budget
from proreus.kube.default_spread import SPREADING, OwnerKey, selector_of, with_default_spread
from proreus.kube.nodes import read_node
from proreus.kube.pods import (
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODELS,
    NAMESPACE_NAME,
    TemplateReferences,
    read_pod_spec,
)
from proreus.model.node import Node
from proreus.model.pod import NodeAffinity, PodSpec
from proreus.model.resources import PODS
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget

_MOST_TEMPLATES = 16_384
"""Kept at most: pods that are all different must not fill the memory."""
_GPU_WISHES = (GPU_MILLI, GPU_COUNT, GPU_MODELS)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Template:
    """What was read of a pod, and what it was read with."""

    spec: PodSpec
    owner: OwnerKey | None
    """Who owns the pod, where owners of its kind count for the scheduler's own spread constraints."""
    by_namespaces: bool
    """A term of it selects namespaces."""
    needs: VolumeNeeds = NO_NEEDS
    """Of its volumes; they are in the spec, too."""
    own_affinity: NodeAffinity | None = None
    """Without that of its volumes, where they have any."""


class TemplateReader:
    """Reads pods, nodes and budgets; equal templates become the very same `PodSpec`."""

    def __init__(self) -> None:
        self._templates: dict[bytes, Template] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._selectors: dict[OwnerKey, Selector] = {}
        self._services: dict[tuple[str, str], dict[str, str]] = {}
        self._with_volumes: dict[tuple[int, VolumeNeeds], tuple[Template, Template]] = {}
        """By the template without them, which is kept, and what volumes ask for."""

    def pod(self, obj: Object) -> Template:
        """The template of a pod; an InputError says what the scheduler cannot understand about it."""
        metadata, spec = obj["metadata"], obj["spec"]
        annotations = metadata.get("annotations") or {}
        wishes = {name: annotations[name] for name in _GPU_WISHES if name in annotations}
        owner = _controller(metadata)
        key = _encode(
            (
                metadata["namespace"],
                owner,
                metadata.get("labels"),
                wishes,
                "deletionTimestamp" in metadata,
                "nodeName" in spec,
                # Pods of one template differ in their nodes alone.
                {name: part for name, part in spec.items() if name != "nodeName"},
            )
        )
        template = self._templates.get(key)
        if template is None:
            template = self._read(obj, owner)
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            if template.owner is None or template.owner in self._selectors:
                self._templates[key] = template
        return template

    def pod_with_volumes(self, obj: Object, needs: VolumeNeeds) -> Template:
        """The template of a pod whose volumes ask for that."""
        plain = self.pod(obj)
        if needs == NO_NEEDS:
            return plain
        key = (id(plain), needs)
        if key not in self._with_volumes:
            if len(self._with_volumes) >= _MOST_TEMPLATES:
                self._with_volumes.clear()
            spec = with_volumes(plain.spec, needs)
            merged = replace(plain, spec=spec, needs=needs, own_affinity=plain.spec.node_affinity)
            self._with_volumes[key] = (plain, merged)
        return self._with_volumes[key][1]

    def node(self, obj: Object) -> Node:
        """The node; one that has not stated its size yet has room for nothing."""
        status = obj.get("status") or {}
        if not (status.get("allocatable") or status.get("capacity")):
            obj = {**obj, "status": {**status, "allocatable": {PODS: "0"}}}
        return read_node(_entry(obj, "node"))

    def budget(self, obj: Object, covered: Callable[[str, Selector], int]) -> DisruptionBudget:
        """The budget; see `read_budget`."""
        return read_budget(_entry(obj, "poddisruptionbudget"), covered)

    def set_namespace(self, name: str, obj: Object | None) -> bool:
        """What a namespace is like now, None: gone; whether selectors of namespaces mean something else."""
        labels: dict[str, str] | None = None
        if obj is not None:
            labels = {**(obj["metadata"].get("labels") or {}), NAMESPACE_NAME: name}
        if self._namespaces.get(name) == labels:
            return False
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._templates.clear()
        return True

    def set_service(self, namespace: str, name: str, obj: Object | None) -> bool:
        """What a Service is like now; whether pods of its namespace may be selected otherwise."""
        selector = dict((obj.get("spec") or {}).get("selector") or {}) if obj is not None else None
        if (self._services.get((namespace, name)) or None) == (selector or None):
            return False
        if selector:
            self._services[namespace, name] = selector
        else:
            del self._services[namespace, name]
        self._templates.clear()
        return True

    def set_owner(self, kind: str, obj: Object, *, gone: bool = False) -> OwnerKey | None:
        """What an owner of pods is like now; its key where its pods have to be read again."""
        metadata = obj["metadata"]
        key = (kind, metadata["namespace"], metadata["name"])
        if gone:
            self._selectors.pop(key, None)
            return None
        selector = selector_of(_entry(obj, kind.lower()), kind)
        if self._selectors.get(key) == selector:
            return None
        if key in self._selectors:
            self._templates.clear()
        self._selectors[key] = selector
        return key

    def _read(self, obj: Object, owner: OwnerKey | None) -> Template:
        namespace = obj["metadata"]["namespace"]
        known = {namespace: {NAMESPACE_NAME: namespace}, **self._namespaces}
        spec = read_pod_spec(_entry(obj, "pod"), TemplateReferences(namespace, namespaces=known))
        # Who names a node is not scheduled: filters are not asked.
        spec = replace(spec, node_name="")
        selector = self._selectors.get(owner, Selector()) if owner else Selector()
        services = ((where, wanted) for (where, _), wanted in self._services.items())
        by_namespaces = _asks_for_namespaces(obj["spec"].get("affinity") or {})
        return Template(with_default_spread(spec, services, selector), owner, by_namespaces)


def parts_that_matter(node: Object) -> bytes:
    """What of a Node object says where pods may go; heartbeats change nothing of it."""
    status = node.get("status") or {}
    return _encode(
        (
            node["metadata"].get("labels"),
            node.get("spec"),
            *(status.get(part) for part in ("allocatable", "capacity", "images")),
        )
    )


def _controller(metadata: Object) -> OwnerKey | None:
    """Who owns a pod, where its selector counts."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] in SPREADING:
            return owner["kind"], metadata["namespace"], owner["name"]
    return None


def _asks_for_namespaces(part: Any) -> bool:
    """Whether there is a namespaceSelector anywhere in an affinity."""
    match part:
        case dict():
            return "namespaceSelector" in part or any(map(_asks_for_namespaces, part.values()))
        case list():
            return any(map(_asks_for_namespaces, part))
        case _:
            return False


def _entry(obj: Object, kind: str) -> Entry:
    """To move through; errors name the object instead of a file."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return entry_of(obj, Path(kind) / (f"{namespace}/" if namespace else "") / metadata["name"])
