"""A cluster as someone else describes it: nodes, what runs there, and one pod to decide about.

A world knows its cluster from the beginning; a service is told how it stands now. Pods that are listed one
by one are placed like any other. What is in use without being listed is subtracted from the node as a sum:
it counts for room and scores, and nothing can evict it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod
from proreus.model.resources import Resources
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.compile import Compiled, compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.devices import devices_held
from proreus.worlds.pods.state.fragmentation import node_fragment
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place, place_without_gpus


@dataclass(frozen=True)
class Running:
    """A pod on a node; `devices` is a bit mask of GPUs, 0 takes the tightest that fit."""

    pod: Pod
    devices: int = 0
    since: float = 0.0
    """When it was placed, on any clock: of equals, preemption spares those that run longest."""


@dataclass(frozen=True)
class NodeNow:
    """A node and what is on it."""

    node: Node
    running: tuple[Running, ...] = ()
    used: Resources = field(default_factory=Resources)
    """What else is in use, as a sum."""
    gpu_used: tuple[int, ...] = ()
    """Milli-GPU that is in use else, per device."""


def observe(
    nodes: Sequence[NodeNow],
    pod: Pod,
    waiting: int = 0,
    budgets: tuple[DisruptionBudget, ...] = (),
) -> PodObservation:
    """The observation of `pod` in that cluster; an InputError names the node whose GPUs do not add up."""
    listed = [(n, running) for n, now in enumerate(nodes) for running in now.running]
    # When they arrived does not matter any more.
    pods = tuple(Pod(known.name, known.spec) for known in (pod, *(running.pod for _, running in listed)))
    workload = Workload("snapshot", tuple(now.node for now in nodes), pods, budgets)
    compiled = compile_workload(workload, decided=1)
    state = empty_state(compiled.cluster)
    places = {name: place for place, name in enumerate(compiled.columns)}
    for n, now in enumerate(nodes):
        _subtract(compiled, state, (n, now), places)
    _place_all(compiled, state, nodes, listed)
    return PodObservation(compiled, state, new_scratch(compiled.cluster), 0, 0.0, waiting)


def _place_all(
    compiled: Compiled, state: State, nodes: Sequence[NodeNow], listed: Sequence[tuple[int, Running]]
) -> None:
    """Place pod after pod, in one go as long as none of them holds GPUs, which depend on those before."""
    plain = np.array([running.pod.spec.gpu.count == 0 for _, running in listed], dtype=np.bool_)
    where = np.array([n for n, _ in listed], dtype=np.int64)
    since = np.array([running.since for _, running in listed], dtype=np.float64)
    # Where a run of pods with or without GPUs begins, and the end.
    borders = [0, *(np.flatnonzero(plain[1:] != plain[:-1]) + 1).tolist(), len(listed)]
    for start, stop in itertools.pairwise(borders):
        if start < stop and plain[start]:
            place_without_gpus(compiled.cluster, state, start + 1, where[start:stop], since[start:stop])
            continue
        for index in range(start, stop):
            n, running = listed[index]
            devices = _devices(state, nodes[n], n, running)
            place(compiled.cluster, state, index + 1, n, devices, running.since)


def _subtract(compiled: Compiled, state: State, node: tuple[int, NodeNow], places: Mapping[str, int]) -> None:
    """places: the column of each resource."""
    n, now = node
    used, cluster = now.used, compiled.cluster
    if used == Resources() and not now.gpu_used:
        return
    base = used.base()
    state.free[n, : len(base)] -= np.array(base, dtype=np.int64)
    for name, amount in used.extended:
        if name in places:
            state.free[n, places[name]] -= amount
    state.scored[n] += (used.cpu, used.memory)
    state.load[n, 0] += used.cpu
    if len(now.gpu_used) > now.node.gpu_count:
        raise InputError(
            f"lists {len(now.gpu_used)} GPUs, the node has {now.node.gpu_count}", field=now.node.name
        )
    for device, milli in enumerate(now.gpu_used):
        state.gpu_left[n, device] -= milli
    if now.node.gpu_count:
        state.fragment[n] = node_fragment(
            cluster.typical,
            cluster.nodes.gpu_model[n],
            state.free[n, 0],
            state.gpu_left[n],
            now.node.gpu_count,
        )


def _devices(state: State, now: NodeNow, n: int, running: Running) -> int:
    """The devices that a running pod holds."""
    gpu, count = running.pod.spec.gpu, now.node.gpu_count
    if gpu.count == 0:
        return 0
    held = devices_held(state.gpu_left[n, :count], gpu.count, gpu.milli, running.devices)
    if held is None:
        raise InputError(
            f"pod {running.pod.name!r} holds {gpu.count} x {gpu.milli} of {GPU_WHOLE} GPU parts, "
            "which its devices do not have",
            field=now.node.name,
        )
    return held
