"""Small random workloads for property tests: few nodes, few pods, everything that can go wrong.

Amounts come from short menus so that nodes fill up, ties are frequent and pods repeat; times are halves
and quarters of a second so that sums of them are exact.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from proreus.model.node import ZONE, Effect, Node, Pace, Taint, Toleration
from proreus.model.pod import GpuRequest, Pod, PodAffinity, PodSpec, PodTerm, SpreadConstraint
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
TAINT_MENU: tuple[tuple[Taint, ...], ...] = (*((),) * 8, *((taint,) for taint in TAINTS), TAINTS)


def seldom(often: object, rare: object) -> st.SearchStrategy[object]:
    """`often` five times out of six; the simplest example is `often`."""
    return st.sampled_from((often,) * 5 + (rare,))


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Node:
    """One node, named after its place."""
    gpus = draw(st.sampled_from((0, 1, 2, 4)))
    labels: dict[str, str] = {}
    zone = draw(st.sampled_from(("east", "west", "")))
    if zone:
        labels[ZONE] = zone
    if draw(st.booleans()):
        labels["disk"] = "ssd"
    return Node(
        name=f"node{index}",
        allocatable=Resources(
            cpu=draw(st.sampled_from((4000, 8000, 2000, 3000))),
            memory=draw(st.sampled_from((2, 4, 16))) * GIB,
            ephemeral=draw(st.sampled_from((10, 0))) * GIB,
            pods=draw(st.sampled_from((110, 110, 3, 1))),
            network=draw(st.sampled_from((1000, 0))),
            disk=draw(st.sampled_from((500, 0))),
            extended=((EXTENDED, 2),) if draw(st.booleans()) else (),
        ),
        gpu_count=gpus,
        gpu_model=draw(st.sampled_from(("A100", "T4"))) if gpus else "",
        labels=tuple(sorted(labels.items())),
        taints=draw(st.sampled_from(TAINT_MENU)),
        unschedulable=bool(draw(seldom(False, True))),
        pace=Pace(
            speed=draw(st.sampled_from((1.0, 2.0, 0.5))),
            start_seconds=draw(st.sampled_from((0.0, 0.0, 1.5))),
        ),
    )


def selectors() -> st.SearchStrategy[Selector]:
    """Selectors over the `app` label."""
    return st.one_of(
        st.sampled_from(APPS).map(lambda app: match_labels({"app": app})),
        st.sampled_from(
            (
                Selector((Requirement("app", Operator.EXISTS),)),
                Selector((Requirement("app", Operator.NOT_IN, ("red",)),)),
                Selector(),
            )
        ),
    )


def topology_keys() -> st.SearchStrategy[str]:
    """Mostly keys that some nodes have."""
    return st.sampled_from((ZONE, HOSTNAME_KEY, "disk"))


def pod_terms() -> st.SearchStrategy[PodTerm]:
    """Affinity terms, some of them across namespaces."""
    return st.builds(
        PodTerm, selectors(), topology_keys(), st.sampled_from(((), (), ("default", "other")))
    )


def affinities(required: bool) -> st.SearchStrategy[PodAffinity]:
    """Up to two required and one preferred term."""
    return st.builds(
        PodAffinity,
        st.lists(pod_terms(), max_size=2 if required else 0).map(tuple),
        st.lists(st.tuples(st.sampled_from((1, 50)), pod_terms()), max_size=1).map(tuple),
    )


def spreads(hard: st.SearchStrategy[bool]) -> st.SearchStrategy[SpreadConstraint]:
    """Spread constraints."""
    return st.builds(
        SpreadConstraint,
        selectors(),
        topology_keys(),
        st.sampled_from((1, 2)),
        st.sampled_from((1, 1, 3)),
        hard,
    )


GPU_MENU = (
    *(GpuRequest(),) * 6,
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


FLAVOURS = ("plain", "plain", "tolerant", "picky", "port", "licence", "affinity", "anti", "spread", "storage")


@st.composite
def specs(draw: st.DrawFn, *, placement_can_help: bool = True) -> PodSpec:
    """One pod spec with one special trait, so that most pods fit somewhere.

    Without `placement_can_help` it has no required affinity and no hard spread: the only constraints that
    the arrival of another pod, and not only the departure of one, can satisfy.
    """
    flavour = draw(st.sampled_from(FLAVOURS))
    app = draw(st.sampled_from(("", *APPS)))
    relations: dict[str, object] = {}
    if flavour == "affinity":
        relations["affinity"] = draw(affinities(placement_can_help))
    elif flavour == "anti":
        relations["anti_affinity"] = draw(affinities(True))
    elif flavour == "spread":
        hard = st.booleans() if placement_can_help else st.just(False)
        relations["spread"] = tuple(draw(st.lists(spreads(hard), min_size=1, max_size=2)))
    stored = flavour == "storage"
    return PodSpec(
        requests=Resources(
            cpu=draw(st.sampled_from((1000, 2000, 4000, 2000, 500, 250, 0))),
            memory=draw(st.sampled_from((0, 1, 2, 3))) * GIB,
            ephemeral=4 * GIB if stored else 0,
            network=draw(st.sampled_from((0, 400))) if stored else 0,
            disk=draw(st.sampled_from((0, 300))) if stored else 0,
            extended=((EXTENDED, 1),) if flavour == "licence" else (),
        ),
        gpu=draw(st.sampled_from(GPU_MENU)),
        namespace=str(draw(seldom("default", "other"))),
        labels=(("app", app),) if app else (),
        priority=draw(st.sampled_from((0, 10, 1000, -5))),
        may_preempt=bool(draw(seldom(True, False))),
        tolerations=draw(st.sampled_from(TOLERATION_MENU)) if flavour == "tolerant" else (),
        node_selector=(("disk", "ssd"),) if flavour == "picky" else (),
        host_ports=draw(st.sampled_from(PORT_MENU)) if flavour == "port" else (),
        usage=draw(st.sampled_from((1.0, 0.3))),
        usage_deviation=draw(st.sampled_from((0.0, 0.1))),
        **relations,  # type: ignore[arg-type]
    )


def budgets() -> st.SearchStrategy[tuple[DisruptionBudget, ...]]:
    """Up to two disruption budgets."""
    bounds = st.sampled_from(((None, 0), (None, 1), (1, None), (2, None)))
    one = st.tuples(selectors(), bounds)
    return st.lists(one, max_size=2).map(
        lambda drawn: tuple(
            DisruptionBudget(f"budget{i}", selector, "default", least, most)
            for i, (selector, (least, most)) in enumerate(drawn)
        )
    )


@st.composite
def workloads(
    draw: st.DrawFn, *, most_pods: int = 25, most_specs: int = 6, placement_can_help: bool = True
) -> Workload:
    """A cluster and the pods that come to it; many pods share a spec, many arrive at once.

    In a crowded one there are few nodes and the important pods come last: they have to evict others.
    """
    crowded = draw(st.booleans())
    count = draw(st.integers(1, 2 if crowded else 6))
    kinds = draw(st.integers(2 if crowded else 1, most_specs))
    menu = [draw(specs(placement_can_help=placement_can_help)) for _ in range(kinds)]
    total = draw(st.integers(1, most_pods))
    chosen = draw(st.lists(st.integers(0, kinds - 1), min_size=total, max_size=total))
    if crowded:
        chosen.sort(key=lambda kind: menu[kind].priority)
    now = 0.0
    pods = []
    for i, kind in enumerate(chosen):
        now += draw(st.sampled_from((0.0, 0.0, 0.0, 0.25, 1.0, 2.5)))
        durations = (50.0, 10.0, math.inf) if crowded else (10.0, 50.0, 3.5, 0.5, 0.0, math.inf)
        pods.append(Pod(f"pod{i}", menu[kind], now, draw(st.sampled_from(durations))))
    return Workload(
        name="random",
        nodes=tuple(draw(nodes(i)) for i in range(count)),
        pods=tuple(pods),
        budgets=draw(budgets()),
    )
