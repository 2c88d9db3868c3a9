"""A machine: what it offers, what it repels, how fast it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from proreus.model.resources import Resources

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
MOST_DEVICES = 62
"""GPUs of one node: a choice of them must fit in a 64-bit mask."""


class Effect(Enum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True)
class Taint:
    """Repels pods from a node."""

    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE


@dataclass(frozen=True)
class Toleration:
    """Lets a pod ignore taints; no key means all keys, no effect means all effects."""

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers `taint`."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key == "":
            return self.exists
        return self.key == taint.key and (self.exists or self.value == taint.value)


@dataclass(frozen=True)
class Pace:
    """How fast a node runs work and how long it takes to bring containers up.

    Only `speed` and `start_seconds` matter in steady time; the rest belongs to the
    ticked runtime of the k8s simulator (`Workload.ticked`).
    """

    speed: float = 1.0
    """Work done per second; a pod of duration d runs d / speed seconds."""
    start_seconds: float = 0.0
    """From placement to the container's start."""
    start_extra: float = 0.0
    """Extra seconds of start for every other container that is still starting on the node."""
    start_spacing: float = 0.0
    """At most one container starts per so many seconds; 0: no limit."""
    minimum_speed: float = 0.0
    """Speed of a node whose CPU is all asked for; 0: it never slows down."""
    slow_threshold: float = 0.0
    """Share of CPU asked for from which the node slows down; 0: it never slows down."""

    def __post_init__(self) -> None:
        if not 0 < self.speed < math.inf:
            raise ValueError(f"speed {self.speed} is not a number above 0")


@dataclass(frozen=True)
class Node:
    """One node of the cluster, immutable; what runs on it is the cluster state's business."""

    name: str
    allocatable: Resources
    gpu_count: int = 0
    gpu_model: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: tuple[tuple[str, int], ...] = ()
    """(image name, bytes) already on the node."""
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        if not 0 <= self.gpu_count <= MOST_DEVICES:
            raise ValueError(f"{self.gpu_count} GPUs on one node: between 0 and {MOST_DEVICES} are possible")

    def label_map(self) -> dict[str, str]:
        """The labels, with the hostname every kubelet adds."""
        return {HOSTNAME: self.name, **dict(self.labels)}


def hard_effect(effect: Effect) -> bool:
    """Whether an untolerated taint of this effect forbids placement (and does not merely advise)."""
    match effect:
        case Effect.NO_SCHEDULE | Effect.NO_EXECUTE:
            return True
        case Effect.PREFER_NO_SCHEDULE:
            return False
        case _:
            assert_never(effect)
