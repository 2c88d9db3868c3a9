"""A unit of work: what it asks for, where it may go, when it comes and how long it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from proreus.model.node import Toleration
from proreus.model.resources import MIB, Resources
from proreus.model.selectors import Operator, Selector

NODE_NAME_FIELD = "metadata.name"
"""The only field of a node that a term may ask about."""

GPU_WHOLE = 1000
"""Milli-GPU of one whole device."""

# A container that states no request still counts this much when kube-scheduler scores a node.
UNSTATED_CPU = 100
UNSTATED_MEMORY = 200 * MIB


@dataclass(frozen=True)
class GpuRequest:
    """`count` devices with `milli` free on each; `models` empty means any model."""

    count: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 0 or not 0 <= self.milli <= GPU_WHOLE:
            raise ValueError(f"GPU request of {self.count} x {self.milli} milli is impossible")
        if (self.count == 0) != (self.milli == 0):
            raise ValueError("a GPU request needs both a device count and a share per device")


@dataclass(frozen=True)
class NodeTerm:
    """One nodeSelectorTerm: conditions on labels and on fields (metadata.name), all to hold."""

    labels: Selector = field(default_factory=Selector)
    fields: Selector = field(default_factory=Selector)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node is selected; a term without any condition selects none, as in Kubernetes."""
        if not self.labels.requirements and not self.fields.requirements:
            return False
        return self.labels.matches(labels) and self.fields.matches({NODE_NAME_FIELD: name})

    def names(self) -> frozenset[str] | None:
        """The only nodes that the term can select by their names; None where it does not name them."""
        named = [
            frozenset(requirement.values)
            for requirement in self.fields.requirements
            if requirement.key == NODE_NAME_FIELD and requirement.operator is Operator.IN
        ]
        return frozenset.intersection(*named) if named else None


@dataclass(frozen=True)
class NodeAffinity:
    """Where a pod may go (any required term) and would like to go (weight, term)."""

    required: tuple[NodeTerm, ...] = ()
    preferred: tuple[tuple[int, NodeTerm], ...] = ()

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and with these labels meets what is required."""
        return not self.required or any(term.matches(name, labels) for term in self.required)

    def names(self) -> frozenset[str] | None:
        """The nodes that kube-scheduler looks at, where every required term names them; None: all nodes."""
        names: frozenset[str] = frozenset()
        for term in self.required:
            named = term.names()
            if named is None:
                return None
            names |= named
        return names if self.required else None


@dataclass(frozen=True)
class PodTerm:
    """Pods selected by labels within namespaces, seen through one topology key."""

    selector: Selector
    topology_key: str
    namespaces: tuple[str, ...] = ()
    """Empty: the namespace of the pod that carries the term."""


@dataclass(frozen=True)
class PodAffinity:
    """Required and preferred (weight, term) closeness to, or distance from, other pods."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()


@dataclass(frozen=True)
class SpreadConstraint:
    """Keep the number of matching pods per topology domain within `max_skew`."""

    selector: Selector
    topology_key: str
    max_skew: int = 1
    min_domains: int = 1
    hard: bool = True
    """DoNotSchedule when true, ScheduleAnyway when false."""
    system_default: bool = False
    """Added by the scheduler itself: nodes without the key are still scored."""
    honors_affinity: bool = True
    """nodeAffinityPolicy: nodes that the pod's selector and affinity exclude do not count."""
    honors_taints: bool = False
    """nodeTaintsPolicy: nodes with taints that the pod does not tolerate do not count."""

    def __post_init__(self) -> None:
        if self.max_skew < 1 or self.min_domains < 1:
            raise ValueError("maxSkew and minDomains must be at least 1")


@dataclass(frozen=True)
class PodSpec:
    """Everything about a pod that can influence where it goes; pods with equal specs are one class."""

    requests: Resources
    gpu: GpuRequest = field(default_factory=GpuRequest)
    namespace: str = "default"
    labels: tuple[tuple[str, str], ...] = ()
    priority: int = 0
    may_preempt: bool = True
    """preemptionPolicy: false means Never."""
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeAffinity = field(default_factory=NodeAffinity)
    affinity: PodAffinity = field(default_factory=PodAffinity)
    anti_affinity: PodAffinity = field(default_factory=PodAffinity)
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(host address, protocol, port); address "" is every address."""
    images: tuple[str, ...] = ()
    """Of its containers and init containers."""
    image_volumes: tuple[str, ...] = ()
    missing_claim: bool = False
    """It mounts a volume claim that does not exist: no node may take it."""
    terminating: bool = False
    """On its way out: it holds its room, and no spread constraint counts it."""
    scoring: tuple[int, int] | None = None
    """CPU and memory that the pod, once placed, counts in scores; None: the requests, or the defaults."""
    scoring_incoming: tuple[int, int] | None = None
    """The same while it is being placed, when pod-level requests do not count; None: no difference."""
    cpu_limit: int = 0
    """Thousandths of a core; 0 when no limit is stated."""
    usage: float = 1.0
    """Mean measured CPU use as a share of the CPU request (load-aware scoring reads it)."""
    usage_deviation: float = 0.0
    """Standard deviation of that share over time."""

    def scored_requests(self) -> tuple[int, int]:
        """CPU and memory of a placed pod that kube-scheduler counts when it scores (never zero)."""
        if self.scoring is not None:
            return self.scoring
        return (self.requests.cpu or UNSTATED_CPU, self.requests.memory or UNSTATED_MEMORY)

    def scored_incoming(self) -> tuple[int, int]:
        """CPU and memory that NodeResourcesFit adds for the pod when it scores a place for it."""
        return self.scored_requests() if self.scoring_incoming is None else self.scoring_incoming


@dataclass(frozen=True)
class Pod:
    """One pod of a workload: a spec, a name, and its place in time."""

    name: str
    spec: PodSpec
    arrival: float = 0.0
    duration: float = math.inf
    """Seconds of work at speed 1; infinite: it never leaves."""
    job: str = ""
    """The job it belongs to; "" for a lone pod."""
    node: str = ""
    """The node it is on from its arrival, whatever filters say; "" for a pod that is yet to be placed."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.arrival) or self.arrival < 0:
            raise ValueError(f"arrival {self.arrival} is not a time from 0 on")
        if math.isnan(self.duration) or self.duration < 0:
            raise ValueError(f"duration {self.duration} is not a length of time")
