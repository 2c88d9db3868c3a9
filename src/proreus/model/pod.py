"""A unit of work: what it asks for, where it may go, when it comes and how long it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from proreus.model.node import Toleration
from proreus.model.resources import MIB, Resources
from proreus.model.selectors import Selector

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


@dataclass(frozen=True)
class NodeAffinity:
    """Where a pod may go (any required term) and would like to go (weight, term)."""

    required: tuple[NodeTerm, ...] = ()
    preferred: tuple[tuple[int, NodeTerm], ...] = ()


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
    scoring: tuple[int, int] | None = None
    """CPU and memory as kube-scheduler scores them; None: the requests, or the defaults where unstated."""
    cpu_limit: int = 0
    """Thousandths of a core; 0 when no limit is stated."""
    usage: float = 1.0
    """Mean measured CPU use as a share of the CPU request (load-aware scoring reads it)."""
    usage_deviation: float = 0.0
    """Standard deviation of that share over time."""

    def scored_requests(self) -> tuple[int, int]:
        """CPU and memory that kube-scheduler counts when it scores (never zero)."""
        if self.scoring is not None:
            return self.scoring
        return (self.requests.cpu or UNSTATED_CPU, self.requests.memory or UNSTATED_MEMORY)


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

    def __post_init__(self) -> None:
        if not math.isfinite(self.arrival) or self.arrival < 0:
            raise ValueError(f"arrival {self.arrival} is not a time from 0 on")
        if math.isnan(self.duration) or self.duration < 0:
            raise ValueError(f"duration {self.duration} is not a length of time")
