"""What a node by itself says to a pod, whatever else runs there: filters and preferences that never change.

Pods for which all nodes say the same have one *shape*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from proreus.model.node import HOSTNAME, Effect, Node, Taint, hard_effect
from proreus.model.pod import NodeTerm, PodSpec
from proreus.worlds.pods.state.filters import (
    GPU_NEVER,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_UNSCHEDULABLE,
    OK,
    TAINTS,
    VOLUME_CLAIM,
)

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
ShapeKey: TypeAlias = tuple[object, ...]


class Pair(NamedTuple):
    """One shape on one node; the fields are those of `Shapes`."""

    blocked: int
    repelled: int
    preferred: int
    allowed: bool


def shape_key(spec: PodSpec) -> ShapeKey:
    """Equal for pods whose static constraints are equal."""
    where = (spec.node_name, spec.node_selector, spec.node_affinity, spec.tolerations, spec.gpu.models)
    return (*where, spec.images, spec.image_volumes, spec.missing_claim)


def refused_everywhere(spec: PodSpec) -> int:
    """The filter that refuses before any node is looked at, or OK."""
    names = spec.node_affinity.names()
    return VOLUME_CLAIM if spec.missing_claim and (names is None or names) else OK


def asks_for_names(spec: PodSpec) -> bool:
    """Whether what a node says may depend on its name, and not on its labels and taints alone."""
    terms = (*spec.node_affinity.required, *(term for _, term in spec.node_affinity.preferred))
    return (
        bool(spec.node_name)
        or any(key == HOSTNAME for key, _ in spec.node_selector)
        or any(_names(term) for term in terms)
    )


def _names(term: NodeTerm) -> bool:
    return bool(term.fields.requirements) or any(
        requirement.key == HOSTNAME for requirement in term.labels.requirements
    )


def tolerates(spec: PodSpec, node: Node) -> bool:
    """Whether the pod tolerates every taint that would keep it away."""
    hard = (taint for taint in node.taints if hard_effect(taint.effect))
    return all(any(t.tolerates(taint) for t in spec.tolerations) for taint in hard)


def pair(spec: PodSpec, node: Node, labels: Mapping[str, str], *, tolerated: bool) -> Pair:
    """What `node` says to the shape of `spec`; labels: `node.label_map()`."""
    soft = [t for t in spec.tolerations if t.effect in (None, Effect.PREFER_NO_SCHEDULE)]
    allowed = _affinity_allows(spec, node, labels)
    return Pair(
        blocked=refused_everywhere(spec) or _refusal(spec, node, tolerated, allowed),
        repelled=sum(
            not hard_effect(taint.effect) and not any(t.tolerates(taint) for t in soft)
            for taint in node.taints
        ),
        preferred=sum(
            weight for weight, term in spec.node_affinity.preferred if term.matches(node.name, labels)
        ),
        allowed=allowed,
    )


def _refusal(spec: PodSpec, node: Node, tolerated: bool, allowed: bool) -> int:
    """The first filter, in kube's order, that refuses whatever else runs on the node."""
    if node.unschedulable and not any(t.tolerates(UNSCHEDULABLE_TAINT) for t in spec.tolerations):
        return NODE_UNSCHEDULABLE
    if spec.node_name and spec.node_name != node.name:
        return NODE_NAME
    if not tolerated:
        return TAINTS
    if not allowed:
        return NODE_AFFINITY
    if spec.gpu.models and node.gpu_model not in spec.gpu.models:
        return GPU_NEVER
    return OK


def _affinity_allows(spec: PodSpec, node: Node, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in spec.node_selector):
        return False
    return spec.node_affinity.allows(node.name, labels)
