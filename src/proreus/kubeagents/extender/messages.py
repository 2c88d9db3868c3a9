"""The extender protocol (k8s.io/kube-scheduler/extender/v1) as it is on the wire.

Go's types have no JSON tags, so the names are those of the fields. A list of nodes is passed on as it came:
only the names are looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

Object = dict[str, Any]
MOST_NODES = 20_000
"""Of one call: four times what Kubernetes is made for."""


class NodeList(Struct):
    """Whole nodes, where kube-scheduler does not trust us to know them."""

    items: list[Raw] | None = None
    kind: str = "NodeList"
    apiVersion: str = "v1"  # noqa: N815 - as it is on the wire


class ExtenderArgs(Struct):
    """What filter and prioritize are asked: a pod, and either whole nodes or their names."""

    Pod: Object
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class ExtenderFilterResult(Struct):
    """The nodes that are left, in the form in which they came, and why the others are not."""

    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] = field(default_factory=dict)
    FailedAndUnresolvableNodes: dict[str, str] = field(default_factory=dict)
    Error: str = ""


class HostPriority(Struct):
    """How much a node is liked, 0 to 10."""

    Host: str
    Score: int


class ExtenderBindingArgs(Struct):
    """Which pod goes where."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(Struct):
    """What went wrong; "": nothing."""

    Error: str = ""


class MetaPod(Struct):
    """A victim by its uid."""

    UID: str


class MetaVictims(Struct):
    """Who would have to go from a node."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(Struct):
    """The same as whole pods."""

    Pods: list[Object] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(Struct):
    """Nodes on which evictions would make room for a pod."""

    Pod: Object
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(Struct):
    """Those of them that are left."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


class _Named(Struct):
    name: str


class _NodeHead(Struct):
    metadata: _Named


encode = msgspec.json.Encoder().encode
read_args = msgspec.json.Decoder(ExtenderArgs).decode
read_binding = msgspec.json.Decoder(ExtenderBindingArgs).decode
read_preemption = msgspec.json.Decoder(ExtenderPreemptionArgs).decode
_read_head = msgspec.json.Decoder(_NodeHead).decode


def names_of(args: ExtenderArgs) -> list[str]:
    """The nodes that are asked about, in their order."""
    if args.NodeNames is not None:
        return args.NodeNames
    items = args.Nodes.items if args.Nodes is not None else None
    return [_read_head(item).metadata.name for item in items or ()]


def meta_victims(args: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    """The victims of each node by their uids, however they were told."""
    if args.NodeNameToMetaVictims:
        return args.NodeNameToMetaVictims
    return {
        node: MetaVictims(
            [MetaPod(str(pod.get("metadata", {}).get("uid", ""))) for pod in victims.Pods or ()],
            victims.NumPDBViolations,
        )
        for node, victims in (args.NodeNameToVictims or {}).items()
    }
