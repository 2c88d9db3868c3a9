"""Small random workloads for property tests: few nodes, few pods, everything that can go wrong.

Amounts come from short menus so that nodes fill up, ties are frequent and pods repeat; times are halves
and quarters of a second so that sums of them are exact. Every choice is a `pick` from a menu: made by
hypothesis, which shrinks well but likes small and repetitive examples, or by a seeded generator, which
does not shrink but fills the cluster. `workloads` offers both.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from proreus.model.node import ZONE, Effect, Node, Pace, Taint, Toleration
from proreus.model.pod import (
    GpuRequest,
    NodeAffinity,
    NodeTerm,
    Pod,
    PodAffinity,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import Operator, Requirement, Selector, match_labels
from proreus.model.workload import DisruptionBudget, Workload

HOSTNAME_KEY = "kubernetes.io/hostname"
APPS = ("red", "green", "blue")
EXTENDED = "example.com/licence"
TAINTS = (
    Taint("team", "ml", Effect.NO_SCHEDULE),
    Taint("spot", "", Effect.PREFER_NO_SCHEDULE),
    Taint("sick", "", Effect.NO_EXECUTE),
)
TAINT_MENU: tuple[tuple[Taint, ...], ...] = (*((),) * 16, *((taint,) for taint in TAINTS), TAINTS)

T = TypeVar("T")


class Pick(Protocol):
    """Chooses one of the options."""

    def __call__(self, options: Sequence[T], /) -> T:
        """One of them."""
        ...


def node(pick: Pick, index: int) -> Node:
    """One node, named after its place."""
    gpus = pick((2, 4, 0, 1, 4))
    labels: dict[str, str] = {}
    zone = pick(("east", "west", ""))
    if zone:
        labels[ZONE] = zone
    if pick((False, True)):
        labels["disk"] = "ssd"
    return Node(
        name=f"node{index}",
        allocatable=Resources(
            cpu=pick((4000, 8000, 3000, 2000)),
            memory=pick((16, 8, 4)) * GIB,
            ephemeral=pick((10, 0)) * GIB,
            pods=pick((110, 110, 110, 110, 4, 1)),
            network=pick((1000, 0)),
            disk=pick((500, 0)),
            extended=((EXTENDED, 2),) if pick((True, False)) else (),
        ),
        gpu_count=gpus,
        gpu_model=pick(("A100", "T4")) if gpus else "",
        labels=tuple(sorted(labels.items())),
        taints=pick(TAINT_MENU),
        unschedulable=pick((False,) * 11 + (True,)),
        pace=Pace(speed=pick((1.0, 2.0, 0.5)), start_seconds=pick((0.0, 0.0, 1.5))),
    )


def selector(pick: Pick) -> Selector:
    """A selector over the `app` label."""
    exists = Selector((Requirement("app", Operator.EXISTS),))
    not_red = Selector((Requirement("app", Operator.NOT_IN, ("red",)),))
    return pick((*(match_labels({"app": app}) for app in APPS), exists, not_red, Selector()))


def topology_key(pick: Pick) -> str:
    """A key that every node, most nodes or some nodes have."""
    return pick((ZONE, HOSTNAME_KEY, "disk"))


def pod_term(pick: Pick) -> PodTerm:
    """An affinity term, perhaps across namespaces."""
    return PodTerm(selector(pick), topology_key(pick), pick(((), (), ("default", "other"))))


def affinity(pick: Pick) -> PodAffinity:
    """Up to two required and one preferred term."""
    return PodAffinity(
        required=tuple(pod_term(pick) for _ in range(pick((1, 0, 2)))),
        preferred=tuple((pick((1, 50)), pod_term(pick)) for _ in range(pick((0, 1)))),
    )


def spread(pick: Pick) -> SpreadConstraint:
    """A spread constraint."""
    return SpreadConstraint(
        selector(pick), topology_key(pick), pick((1, 2)), pick((1, 1, 3)), hard=pick((True, False))
    )


GPU_MENU = (
    *(GpuRequest(),) * 8,
    GpuRequest(1, 300),
    GpuRequest(1, 500),
    GpuRequest(1, 1000),
    GpuRequest(2, 1000),
    GpuRequest(2, 400),
    GpuRequest(1, 700, ("T4",)),
    GpuRequest(4, 1000, ("A100", "T4")),
)
TOLERATION_MENU: tuple[tuple[Toleration, ...], ...] = (
    (Toleration("team", "ml"),),
    (Toleration(exists=True),),
    (Toleration("sick", exists=True, effect=Effect.NO_EXECUTE), Toleration("spot", exists=True)),
)
PORT_MENU: tuple[tuple[tuple[str, str, int], ...], ...] = (
    (("", "TCP", 80),),
    (("10.0.0.1", "TCP", 80), ("", "UDP", 53)),
)


NODE_AFFINITY_MENU = (
    NodeAffinity(required=(NodeTerm(Selector((Requirement(ZONE, Operator.IN, ("east", "north")),))),)),
    NodeAffinity(
        required=(
            NodeTerm(Selector((Requirement("disk", Operator.DOES_NOT_EXIST),))),
            NodeTerm(fields=Selector((Requirement("metadata.name", Operator.IN, ("node1",)),))),
        )
    ),
    NodeAffinity(required=(NodeTerm(),)),  # a term without conditions matches no node
)
FLAVOURS = (
    *("plain",) * 6,
    "tolerant",
    "picky",
    "pinned",
    "port",
    "licence",
    "affinity",
    "anti",
    "spread",
    "storage",
)


def spec(pick: Pick, flavours: Sequence[str]) -> PodSpec:
    """One pod spec with one special trait, so that most pods fit somewhere."""
    flavour = pick(flavours)
    app = pick(("", *APPS))
    stored = flavour == "storage"
    picky = flavour == "picky"
    return PodSpec(
        requests=Resources(
            cpu=pick((1000, 2000, 4000, 2000, 500, 250, 0)),
            memory=pick((0, 1, 2, 3)) * GIB,
            ephemeral=4 * GIB if stored else 0,
            network=pick((0, 400)) if stored else 0,
            disk=pick((0, 300)) if stored else 0,
            extended=((EXTENDED, 1),) if flavour == "licence" else (),
        ),
        gpu=pick(GPU_MENU),
        namespace=pick(("default",) * 5 + ("other",)),
        labels=(("app", app),) if app else (),
        priority=pick((0, 10, 1000, -5)),
        may_preempt=pick((True,) * 5 + (False,)),
        tolerations=pick(TOLERATION_MENU) if flavour == "tolerant" else (),
        node_name="node0" if flavour == "pinned" else "",
        node_selector=pick(((), (("disk", "ssd"),))) if picky else (),
        node_affinity=pick(NODE_AFFINITY_MENU) if picky else NodeAffinity(),
        affinity=affinity(pick) if flavour == "affinity" else PodAffinity(),
        anti_affinity=affinity(pick) if flavour == "anti" else PodAffinity(),
        spread=tuple(spread(pick) for _ in range(pick((1, 2)))) if flavour == "spread" else (),
        host_ports=pick(PORT_MENU) if flavour == "port" else (),
        usage=pick((1.0, 0.3)),
        usage_deviation=pick((0.0, 0.1)),
    )


def budget(pick: Pick, index: int) -> DisruptionBudget:
    """A disruption budget."""
    least, most = pick(((None, 0), (None, 1), (1, None), (2, None)))
    return DisruptionBudget(f"budget{index}", selector(pick), "default", least, most)


@dataclass(frozen=True)
class Size:
    """The most that a workload may have."""

    pods: int = 25
    specs: int = 6
    nodes: int = 6


def workload(pick: Pick, size: Size, flavours: Sequence[str]) -> Workload:
    """A cluster and the pods that come to it; many pods share a spec, many arrive at once.

    In a crowded one there are few nodes and the important pods come last: they have to evict others.
    """
    crowded = pick((False, True))
    nodes = pick(range(1, 1 + (2 if crowded else size.nodes)))
    menu = [spec(pick, flavours) for _ in range(pick(range(1, 1 + size.specs)))]
    chosen = [pick(menu) for _ in range(pick(range(1, 1 + size.pods)))]
    if crowded:
        chosen.sort(key=lambda each: each.priority)
    durations = (50.0, 10.0, math.inf) if crowded else (10.0, 50.0, 3.5, 0.5, 0.0, math.inf)
    now = 0.0
    pods = []
    for i, each in enumerate(chosen):
        now += pick((0.0, 0.0, 0.0, 0.25, 1.0, 2.5))
        pods.append(Pod(f"pod{i}", each, now, pick(durations)))
    return Workload(
        name="random",
        nodes=tuple(node(pick, i) for i in range(nodes)),
        pods=tuple(pods),
        budgets=tuple(budget(pick, i) for i in range(pick((0, 1, 2)))),
    )


@st.composite
def shrinking_workloads(draw: st.DrawFn, size: Size, flavours: Sequence[str]) -> Workload:
    """Every choice made by hypothesis."""

    def pick(options: Sequence[T], /) -> T:
        return draw(st.sampled_from(options))

    return workload(pick, size, flavours)


def workloads(
    *, most_pods: int = 25, most_specs: int = 6, flavours: Sequence[str] = FLAVOURS
) -> st.SearchStrategy[Workload]:
    """Random workloads: one in three made by hypothesis choice by choice, the others from a seed."""
    size = Size(most_pods, most_specs)
    seeded = st.integers(0, 2**32 - 1).map(lambda seed: workload(random.Random(seed).choice, size, flavours))
    return st.one_of(shrinking_workloads(size, flavours), seeded, seeded)
