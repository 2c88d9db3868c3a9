"""A cluster in named fields: the nodes and pods of /v1/decide, and what they mean in terms of the model.

Amounts are Kubernetes quantities ("500m", "2", "1Gi") under Kubernetes' names (cpu, memory, ephemeral-
storage, pods, nvidia.com/gpu and any extended resource). Nested constraints have the names of the model's
own fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from proreus.kube.pods import to_resources
from proreus.model.node import Effect, Node, Taint, Toleration
from proreus.model.pod import GPU_WHOLE, GpuRequest, NodeAffinity, Pod, PodAffinity, PodSpec, SpreadConstraint
from proreus.model.resources import CPU, GPU, parse_quantity
from proreus.model.selectors import Operator
from proreus.serving.messages import invalid
from proreus.worlds.pods.state.described_cluster import NodeNow, Running

MOST_NODES, MOST_PODS = 20_000, 200_000
_WRITTEN = {"pattern": r"^[0-9]{1,9}(\.[0-9]{1,3})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", "minimum": 0}
Quantity = Annotated[
    str | int | float,
    Meta(description="A Kubernetes quantity: 500m, 2, 1Gi.", extra_json_schema=_WRITTEN),
]
Amounts = dict[str, Quantity]
_SmallInt = Annotated[int, Meta(ge=-(2**31), le=2**31)]
_Amount = Annotated[int, Meta(ge=0, le=2**62)]
Devices = Annotated[
    tuple[Annotated[int, Meta(ge=0, lt=62)], ...],
    Meta(description="Of a running pod: the GPUs it holds, by index; empty: the tightest that fit."),
]
Since = Annotated[
    float, Meta(ge=-1e15, le=1e15, description="Of a running pod: when it was placed, in seconds.")
]
Model = TypeVar("Model")
_NO_NODE_AFFINITY, _NO_POD_AFFINITY = NodeAffinity(), PodAffinity()


class Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A field that is not known is an error."""


class GpuWire(Strict, frozen=True):
    """GPUs that a pod asks for: `count` devices with `milli` thousandths free on each."""

    count: Annotated[int, Meta(ge=1, le=64)] = 1
    milli: Annotated[int, Meta(ge=1, le=GPU_WHOLE)] = GPU_WHOLE
    models: tuple[str, ...] = ()


class TolerationWire(Strict, frozen=True):
    """A taint that a pod endures; no key means all keys, no effect means all effects."""

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: Effect | None = None


class TaintWire(Strict, frozen=True):
    """What keeps pods off a node."""

    key: str
    effect: Effect
    value: str = ""


class RequirementWire(Strict, frozen=True):
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class SelectorWire(Strict, frozen=True):
    """All requirements must hold."""

    requirements: tuple[RequirementWire, ...] = ()


class NodeTermWire(Strict, frozen=True):
    """Conditions on a node's labels and fields."""

    labels: SelectorWire = SelectorWire()
    fields: SelectorWire = SelectorWire()


class NodeAffinityWire(Strict, frozen=True):
    """Where a pod may go (any required term) and would like to go (weight, term)."""

    required: tuple[NodeTermWire, ...] = ()
    preferred: tuple[tuple[_SmallInt, NodeTermWire], ...] = ()


class PodTermWire(Strict, frozen=True):
    """Pods selected by labels within namespaces, seen through one topology key."""

    selector: SelectorWire
    topology_key: str
    namespaces: tuple[str, ...] = ()


class PodAffinityWire(Strict, frozen=True):
    """Closeness to, or distance from, other pods."""

    required: tuple[PodTermWire, ...] = ()
    preferred: tuple[tuple[_SmallInt, PodTermWire], ...] = ()


class SpreadWire(Strict, frozen=True):
    """Keep the number of matching pods per topology domain within `max_skew`."""

    selector: SelectorWire
    topology_key: str
    max_skew: Annotated[int, Meta(ge=1, le=2**31)] = 1
    min_domains: Annotated[int, Meta(ge=1, le=2**31)] = 1
    hard: bool = True
    system_default: bool = False
    honors_affinity: Annotated[bool, Meta(description="nodeAffinityPolicy: Honor.")] = True
    honors_taints: Annotated[bool, Meta(description="nodeTaintsPolicy: Honor.")] = False


_ANY_NODE, _ANY_PODS = NodeAffinityWire(), PodAffinityWire()
"""What a pod has that says nothing; most say nothing."""


class PodWire(Strict, frozen=True):
    """A pod: what it asks for and where it may go."""

    name: str
    requests: Amounts = field(default_factory=dict)
    gpu: GpuWire | None = None
    namespace: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    priority: _SmallInt = 0
    may_preempt: bool = True
    tolerations: tuple[TolerationWire, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: NodeAffinityWire = _ANY_NODE
    affinity: PodAffinityWire = _ANY_PODS
    anti_affinity: PodAffinityWire = _ANY_PODS
    spread: tuple[SpreadWire, ...] = ()
    host_ports: tuple[tuple[str, str, Annotated[int, Meta(ge=1, le=65_535)]], ...] = ()
    images: tuple[str, ...] = ()
    image_volumes: tuple[str, ...] = ()
    missing_claim: Annotated[
        bool, Meta(description="It mounts a volume claim that does not exist: no node may take it.")
    ] = False
    terminating: Annotated[
        bool, Meta(description="Of a running pod: on its way out; no spread constraint counts it.")
    ] = False
    scoring: Annotated[
        tuple[_Amount, _Amount] | None,
        Meta(description="CPU (thousandths) and memory (bytes) as kube scores them; null: the requests."),
    ] = None
    scoring_incoming: Annotated[
        tuple[_Amount, _Amount] | None,
        Meta(description="The same while the pod is being placed; null: no difference."),
    ] = None
    cpu_limit: Annotated[_Amount, Meta(description="Thousandths of a core; 0: none.")] = 0
    usage: Annotated[
        float, Meta(ge=0, le=1e6, description="Mean measured CPU use as a share of the request.")
    ] = 1.0
    usage_deviation: Annotated[float, Meta(ge=0, le=1e6, description="Its standard deviation.")] = 0.0
    devices: Devices = ()
    since: Since = 0.0


class NodeWire(Strict, frozen=True):
    """A node and what is on it."""

    name: str
    allocatable: Amounts
    used: Annotated[Amounts, Meta(description="In use by pods that are not listed.")] = field(
        default_factory=dict
    )
    gpu_used: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=GPU_WHOLE)], ...],
        Meta(description="Thousandths of each GPU in use by pods that are not listed."),
    ] = ()
    gpu_model: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[TaintWire, ...] = ()
    unschedulable: bool = False
    images: dict[str, Annotated[int, Meta(ge=0, le=2**62)]] = field(default_factory=dict)
    pods: tuple[PodWire, ...] = ()


def to_nodes(nodes: Sequence[NodeWire]) -> list[NodeNow]:
    """The nodes of a request; a refusal names the field that cannot be meant."""
    if sum(len(node.pods) for node in nodes) > MOST_PODS:
        raise invalid("nodes", f"list more than {MOST_PODS} pods")
    seen: set[str] = set()
    found = []
    for index, wire in enumerate(nodes):
        path = f"nodes[{index}]"
        if wire.name in seen:
            raise invalid(f"{path}.name", f"two nodes are named {wire.name!r}")
        seen.add(wire.name)
        found.append(to_node(wire, path))
    return found


def to_node(wire: NodeWire, path: str) -> NodeNow:
    """A node of a request."""
    amounts = _amounts(wire.allocatable, f"{path}.allocatable")
    used = _amounts(wire.used, f"{path}.used")
    if used.pop(GPU, 0):
        raise invalid(f"{path}.used.{GPU}", "say in gpu_used how much of each GPU is in use")
    gpus = amounts.pop(GPU, 0)
    try:
        node = Node(
            name=wire.name,
            allocatable=to_resources(amounts),
            gpu_count=gpus,
            gpu_model=wire.gpu_model if gpus else "",
            labels=tuple(sorted(wire.labels.items())),
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in wire.taints),
            unschedulable=wire.unschedulable,
            images=tuple(wire.images.items()),
        )
    except ValueError as error:
        raise invalid(path, str(error)) from error
    running = tuple(
        Running(to_pod(pod, f"{path}.pods[{k}]"), device_mask(pod.devices), pod.since)
        for k, pod in enumerate(wire.pods)
    )
    return NodeNow(node, running, to_resources(used), wire.gpu_used)


def device_mask(devices: Sequence[int]) -> int:
    """GPUs by index as a bit mask."""
    return sum(1 << device for device in set(devices))


def to_pod(wire: PodWire, path: str) -> Pod:
    """The pod of a request."""
    amounts = _amounts(wire.requests, f"{path}.requests")
    whole = amounts.pop(GPU, 0)
    if whole and wire.gpu is not None:
        raise invalid(f"{path}.gpu", f"comes with {GPU}; say one of the two")
    gpu = GpuRequest(whole, GPU_WHOLE) if whole else GpuRequest()
    if wire.gpu is not None:
        gpu = GpuRequest(wire.gpu.count, wire.gpu.milli, wire.gpu.models)
    return Pod(
        wire.name,
        PodSpec(
            requests=to_resources(amounts),
            gpu=gpu,
            namespace=wire.namespace,
            labels=tuple(sorted(wire.labels.items())),
            priority=wire.priority,
            may_preempt=wire.may_preempt,
            tolerations=tuple(to_model(t, Toleration, path) for t in wire.tolerations),
            node_name=wire.node_name,
            node_selector=tuple(sorted(wire.node_selector.items())),
            node_affinity=_node_affinity(wire.node_affinity, path),
            affinity=_pod_affinity(wire.affinity, path),
            anti_affinity=_pod_affinity(wire.anti_affinity, path),
            spread=tuple(to_model(s, SpreadConstraint, path) for s in wire.spread),
            host_ports=wire.host_ports,
            images=wire.images,
            image_volumes=wire.image_volumes,
            missing_claim=wire.missing_claim,
            terminating=wire.terminating,
            scoring=wire.scoring,
            scoring_incoming=wire.scoring_incoming,
            cpu_limit=wire.cpu_limit,
            usage=wire.usage,
            usage_deviation=wire.usage_deviation,
        ),
    )


def _node_affinity(wire: NodeAffinityWire, path: str) -> NodeAffinity:
    return _NO_NODE_AFFINITY if wire is _ANY_NODE else to_model(wire, NodeAffinity, path)


def _pod_affinity(wire: PodAffinityWire, path: str) -> PodAffinity:
    return _NO_POD_AFFINITY if wire is _ANY_PODS else to_model(wire, PodAffinity, path)


def to_model(wire: Struct, kind: type[Model], path: str) -> Model:
    """A nested constraint as the model's own: the names of the fields are the same."""
    try:
        return msgspec.convert(wire, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise invalid(path, str(error)) from error


@lru_cache(maxsize=16_384)  # the nodes of a cluster are much alike
def _quantity(amount: str | int | float, scale: int) -> int:
    return parse_quantity(amount, scale=scale)


def _amounts(amounts: Mapping[str, str | int | float], path: str) -> dict[str, int]:
    parsed = {}
    for name, amount in amounts.items():
        try:
            parsed[name] = _quantity(amount, 1000 if name == CPU else 1)
        except ValueError as error:
            raise invalid(f"{path}.{name}", str(error)) from error
    return parsed
