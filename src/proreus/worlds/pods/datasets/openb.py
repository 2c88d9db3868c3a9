"""Alibaba's 2023 GPU cluster trace "openb" and the experiment that was published on it (FGD, ATC'23).

Formats: nodes `sn,cpu_milli,memory_mib,gpu,model`; pods `name,cpu_milli,memory_mib,num_gpu,gpu_milli`
and, in most of the variants, `gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`.
`catalogue` calls this. A pod's duration is deletion minus creation: the trace's own departures hold when
a pod starts at once. The columns qos, pod_phase and scheduled_time are accepted and not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from proreus.data.table import LARGEST, TableRow, read_table
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import MIB, Resources
from proreus.model.workload import Workload

UNBOUND_PODS = 1_000_000
"""openb states no limit of pods per node: one that never binds."""

LOAD = 1.3
"""The GPUs that are asked for in the experiment, in capacities."""
_MOST_MIB = LARGEST // MIB


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes of the trace, in file order."""
    nodes: dict[str, Node] = {}
    for row in read_table(path, required=("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        name = row.text("sn")
        if name in nodes:
            raise row.fail("sn", f"two nodes are named {name!r}")
        nodes[name] = Node(
            name=name,
            allocatable=Resources(
                cpu=row.integer("cpu_milli"),
                memory=row.integer("memory_mib", maximum=_MOST_MIB) * MIB,
                pods=UNBOUND_PODS,
            ),
            gpu_count=row.integer("gpu"),
            gpu_model=row.optional_text("model"),
        )
    return tuple(nodes.values())


def read_pods(path: Path) -> tuple[Pod, ...]:
    """The pods of the trace by arrival; time 0 is the earliest creation.

    A pod without a creation time arrives at 0, one without a deletion time never leaves.
    """
    rows = read_table(
        path,
        required=("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        optional=("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
    )
    creations = [row.optional_number("creation_time") for row in rows]
    start = min((creation for creation in creations if creation is not None), default=0.0)
    seen: set[str] = set()
    pods = []
    for row, creation in zip(rows, creations, strict=True):
        name = row.text("name")
        if name in seen:
            raise row.fail("name", f"two pods are named {name!r}")
        seen.add(name)
        arrival = 0.0 if creation is None else creation - start
        pods.append(Pod(name, _spec(row), arrival, _duration(row, creation)))
    return tuple(sorted(pods, key=lambda pod: pod.arrival))


def openb_experiment(nodes: Sequence[Node], pods: Sequence[Pod], seed: int, load: float = LOAD) -> Workload:
    """The published experiment: pods arrive one by one until GPU demand is `load` times the capacity.

    The pods are sorted by name and shuffled; where the list ends early, uniformly drawn pods follow under
    new names, and where it is too long the rest is left out. Nobody leaves. The nodes are permuted too:
    ties go to the first node, and the published means need that order to be random and fixed per run.
    """
    capacity = sum(node.gpu_count for node in nodes) * GPU_WHOLE
    if capacity == 0 or not any(_gpu_demand(pod) for pod in pods):
        raise InputError("the openb experiment needs nodes with GPUs and pods that ask for them")
    random = np.random.default_rng(seed)
    by_name = sorted(pods, key=lambda pod: pod.name)
    shuffled = [by_name[position] for position in random.permutation(len(by_name))]
    arrived: list[Pod] = []
    demand = 0
    while demand < load * capacity:
        position = len(arrived)
        if position < len(shuffled):
            pod = shuffled[position]
            name = pod.name
        else:
            pod = by_name[int(random.integers(len(by_name)))]
            name = f"{pod.name}-again-{position}"
        arrived.append(replace(pod, name=name, arrival=float(position), duration=math.inf))
        demand += _gpu_demand(pod)
    order = np.random.default_rng(seed).permutation(len(nodes))
    return Workload("openb", tuple(nodes[position] for position in order), tuple(arrived))


def first_nodes(experiment: Workload, count: int, load: float = LOAD) -> Workload:
    """The experiment on that many of its nodes, with the pods that arrive until their GPUs are asked for.

    Nodes and pods come in an order that the seed drew, so the first ones are a sample.
    """
    nodes = experiment.nodes[:count]
    wanted = load * sum(node.gpu_count for node in nodes) * GPU_WHOLE
    if count > len(experiment.nodes) or not wanted:
        raise InputError(
            f"{count} nodes: the experiment has {len(experiment.nodes)}, and needs GPUs among them"
        )
    asked = np.cumsum([_gpu_demand(pod) for pod in experiment.pods])
    return replace(experiment, nodes=nodes, pods=experiment.pods[: int(np.searchsorted(asked, wanted)) + 1])


def recorded_peak(workload: Workload) -> float:
    """The largest share of the GPUs that the pods ask for at a time, arriving and leaving as recorded."""
    capacity = sum(node.gpu_count for node in workload.nodes) * GPU_WHOLE
    changes = [(pod.arrival, _gpu_demand(pod)) for pod in workload.pods]
    changes += [(pod.arrival + pod.duration, -_gpu_demand(pod)) for pod in workload.pods]
    demand = np.cumsum([change for _, change in sorted(changes)])  # at one moment, those who leave go first
    return float(demand.max(initial=0)) / capacity if capacity else 0.0


def _gpu_demand(pod: Pod) -> int:
    return pod.spec.gpu.count * pod.spec.gpu.milli


def _spec(row: TableRow) -> PodSpec:
    return PodSpec(
        requests=Resources(
            cpu=row.integer("cpu_milli"), memory=row.integer("memory_mib", maximum=_MOST_MIB) * MIB
        ),
        gpu=_gpu(row),
    )


def _gpu(row: TableRow) -> GpuRequest:
    count, milli = row.integer("num_gpu"), row.integer("gpu_milli", maximum=GPU_WHOLE)
    if (count == 0) != (milli == 0):
        raise row.fail("gpu_milli", f"{count} GPUs with {milli} milli of each is not a request")
    # The trace repeats models within one specification; a model listed twice is still one model.
    models = dict.fromkeys(part for part in row.optional_text("gpu_spec").split("|") if part)
    return GpuRequest(count, milli, tuple(models)) if count else GpuRequest()


def _duration(row: TableRow, creation: float | None) -> float:
    deletion = row.optional_number("deletion_time")
    if deletion is None:
        return math.inf
    if creation is None:
        raise row.fail("creation_time", "a pod that is deleted needs a creation time")
    if deletion < creation:
        raise row.fail("deletion_time", f"the pod ends at {deletion:g}, before it starts at {creation:g}")
    return deletion - creation
