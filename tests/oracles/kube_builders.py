"""Short ways to write nodes, pods and golden cases. Tests import these from `oracles.kube_cases`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypedDict, Unpack

from proreus.model.node import REGION, ZONE, Node, Taint, Toleration
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
from proreus.model.resources import MIB, Resources
from proreus.model.selectors import Operator, Requirement, Selector, match_labels
from proreus.model.workload import DisruptionBudget


class Unchecked(Enum):
    """Stands where None is itself an answer to be checked."""

    UNCHECKED = "unchecked"


UNCHECKED = Unchecked.UNCHECKED


@dataclass(frozen=True)
class Case:
    """A cluster, a pod, and what kube-scheduler makes of them, worked out by hand.

    Placed pods are placed in the order given, each with `now` = its `arrival`. Per-node lists are in the
    order of node indices. Scores and totals are those of all nodes that pass the filters, in ascending index
    (so the `feasible` to score is the ascending list of passing nodes). What is None (choice and preempt:
    UNCHECKED) or left empty is not checked.
    """

    name: str
    nodes: tuple[Node, ...]
    pod: Pod
    placed: tuple[tuple[Pod, int], ...] = ()
    version: str = "1.36"
    budgets: tuple[DisruptionBudget, ...] = ()
    scoring_strategy: str = "LeastAllocated"
    draws: tuple[int, ...] = ()
    """What random_below answers, call by call; the choice must use up all of them."""
    offset: int = 0
    """Passed to preempt."""
    expected_scores: Mapping[str, list[int]] = field(default_factory=dict)
    """The plugins named here only."""
    expected_skipped: tuple[str, ...] = ()
    """Plugins that must give no score at all."""
    expected_totals: list[int] | None = None
    expected_filter: list[str | None] | None = None
    expected_resolvable: list[bool | None] | None = None
    """None for nodes that pass."""
    expected_gpu_left: list[list[int]] | None = None
    expected_order: list[int] | None = None
    expected_choice: int | Unchecked | None = UNCHECKED
    expected_victims: Mapping[int, tuple[list[str], int] | None] = field(default_factory=dict)
    """By node: names in order and number of budget violations; None: preemption does not help there."""
    expected_preempt: tuple[int, list[str]] | Unchecked | None = UNCHECKED


@dataclass(frozen=True)
class SamplingCase:
    """How many feasible nodes are searched for in a cluster of so many."""

    nodes: int
    percentage: int
    expected: int


@dataclass(frozen=True)
class RotationCase:
    """Feasible nodes of the same pod asked for again and again, nothing being placed in between."""

    name: str
    nodes: tuple[Node, ...]
    pod: Pod
    expected: tuple[list[int], ...]


class NodeOptions(TypedDict, total=False):
    """What a node may be given besides its name; memory in MiB."""

    cpu: int
    memory: int
    ephemeral: int
    pods: int
    network: int
    disk: int
    extended: Mapping[str, int]
    labels: Mapping[str, str]
    zone: str
    region: str
    taints: tuple[Taint, ...]
    unschedulable: bool
    images: Mapping[str, int]
    gpus: int
    gpu_model: str


def node(name: str, **options: Unpack[NodeOptions]) -> Node:
    """A node; unless told otherwise with 10 cores, 10000 MiB and 110 pods. Memory and images in MiB."""
    labels = dict(options.get("labels", {}))
    if "zone" in options:
        labels[ZONE] = options["zone"]
    if "region" in options:
        labels[REGION] = options["region"]
    return Node(
        name=name,
        allocatable=Resources(
            cpu=options.get("cpu", 10_000),
            memory=options.get("memory", 10_000) * MIB,
            ephemeral=options.get("ephemeral", 0),
            pods=options.get("pods", 110),
            network=options.get("network", 0),
            disk=options.get("disk", 0),
            extended=tuple(options.get("extended", {}).items()),
        ),
        gpu_count=options.get("gpus", 0),
        gpu_model=options.get("gpu_model", ""),
        labels=tuple(sorted(labels.items())),
        taints=options.get("taints", ()),
        unschedulable=options.get("unschedulable", False),
        images=tuple((image, size * MIB) for image, size in options.get("images", {}).items()),
    )


class PodOptions(TypedDict, total=False):
    """What a pod may be given besides its name; memory in MiB, `gpu` as (devices, milli on each)."""

    cpu: int
    memory: int
    ephemeral: int
    network: int
    disk: int
    extended: Mapping[str, int]
    scoring: tuple[int, int]
    scoring_incoming: tuple[int, int]
    gpu: tuple[int, int]
    gpu_models: tuple[str, ...]
    namespace: str
    labels: Mapping[str, str]
    priority: int
    may_preempt: bool
    arrival: float
    tolerations: tuple[Toleration, ...]
    node_name: str
    node_selector: Mapping[str, str]
    node_affinity: NodeAffinity
    affinity: PodAffinity
    anti_affinity: PodAffinity
    spread: tuple[SpreadConstraint, ...]
    host_ports: tuple[tuple[str, str, int], ...]
    images: tuple[str, ...]


def pod(name: str = "incoming", **options: Unpack[PodOptions]) -> Pod:
    """A pod; unless told otherwise it asks for nothing."""
    devices, milli = options.get("gpu", (0, 0))
    spec = PodSpec(
        requests=Resources(
            cpu=options.get("cpu", 0),
            memory=options.get("memory", 0) * MIB,
            ephemeral=options.get("ephemeral", 0),
            network=options.get("network", 0),
            disk=options.get("disk", 0),
            extended=tuple(options.get("extended", {}).items()),
        ),
        gpu=GpuRequest(devices, milli, options.get("gpu_models", ())),
        namespace=options.get("namespace", "default"),
        labels=tuple(sorted(options.get("labels", {}).items())),
        priority=options.get("priority", 0),
        may_preempt=options.get("may_preempt", True),
        tolerations=options.get("tolerations", ()),
        node_name=options.get("node_name", ""),
        node_selector=tuple(sorted(options.get("node_selector", {}).items())),
        node_affinity=options.get("node_affinity", NodeAffinity()),
        affinity=options.get("affinity", PodAffinity()),
        anti_affinity=options.get("anti_affinity", PodAffinity()),
        spread=options.get("spread", ()),
        host_ports=options.get("host_ports", ()),
        images=options.get("images", ()),
        scoring=options.get("scoring"),
        scoring_incoming=options.get("scoring_incoming"),
    )
    return Pod(name=name, spec=spec, arrival=options.get("arrival", 0.0))


def condition(key: str, operator: str, *values: str) -> Selector:
    """A selector of one requirement, the operator written as in YAML."""
    return Selector((Requirement(key, Operator(operator), values),))


def node_term(labels: Selector | None = None, fields: Selector | None = None) -> NodeTerm:
    """A nodeSelectorTerm."""
    return NodeTerm(labels or Selector(), fields or Selector())


def app(name: str) -> Selector:
    """Selects the pods labelled app=name."""
    return match_labels({"app": name})


def near(name: str, topology_key: str = ZONE, namespaces: tuple[str, ...] = ()) -> PodTerm:
    """A term about the pods labelled app=name."""
    return PodTerm(app(name), topology_key, namespaces)


def runs(name: str, application: str, **options: Unpack[PodOptions]) -> Pod:
    """A pod labelled app=application that asks for nothing."""
    options["labels"] = {"app": application, **options.get("labels", {})}
    return pod(name, **options)
