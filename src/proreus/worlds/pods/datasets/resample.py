"""Work like that which was recorded, as often as one likes: pods of a part of it, drawn again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from proreus.contract.scenario import Part
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod
from proreus.model.workload import Workload

LOAD = 1.3
"""How much is asked for, in capacities: as in the published openb experiment."""
_MOST_PODS = 100_000
_FIRST, _SECOND = 0.6, 0.8
"""Where training ends and where validation ends, in shares of the pods."""
_LEAST = 10
"""Pods of a part: fewer are no sample of anything."""


def part_of(pods: Sequence[Pod], part: Part) -> tuple[Pod, ...]:
    """The first three fifths of the pods in order of arrival, the next fifth, the last.

    Pods that all arrive at one moment have no first and last: every fifth pod stands for a fifth then.
    """
    count = len(pods)
    if count < _LEAST * 5:
        raise InputError(
            f"{count} pods are too few to learn from one part and judge by another: {_LEAST * 5}"
        )
    timed = pods[0].arrival < pods[-1].arrival
    ordered = list(pods) if timed else [pod for first in range(5) for pod in pods[first::5]]
    first, second = int(_FIRST * count), int(_SECOND * count)
    match part:
        case "train":
            return tuple(ordered[:first])
        case "valid":
            return tuple(ordered[first:second])
        case "test":
            return tuple(ordered[second:])
        case _:
            assert_never(part)


def filling(nodes: Sequence[Node], pods: Sequence[Pod], seed: int) -> Workload:
    """Pods drawn from these arrive one by one, and stay, until the nodes are asked for more than they have.

    What they are asked for: GPUs where there are any and somebody wants them, else CPU, else memory, else
    room for pods. Nodes come in another order for every seed: rules that take the first of equals must not
    owe anything to one order.
    """
    capacity, demand = _scarce(nodes, pods)
    random = np.random.default_rng(seed)
    arrived: list[Pod] = []
    asked = 0
    while asked < LOAD * capacity and len(arrived) < _MOST_PODS:
        pod, place = pods[int(random.integers(len(pods)))], len(arrived)
        spread = replace(pod, name=f"{pod.name}-{place}", arrival=float(place), duration=math.inf, node="")
        arrived.append(spread)
        asked += demand(pod)
    order = random.permutation(len(nodes))
    return Workload("resampled", tuple(nodes[place] for place in order), tuple(arrived))


def _scarce(nodes: Sequence[Node], pods: Sequence[Pod]) -> tuple[int, Callable[[Pod], int]]:
    """(capacity, demand of a pod) of what the nodes are filled by."""
    gpus = sum(node.gpu_count for node in nodes) * GPU_WHOLE
    if gpus and any(pod.spec.gpu.count for pod in pods):
        return gpus, lambda pod: pod.spec.gpu.count * pod.spec.gpu.milli
    if any(pod.spec.requests.cpu for pod in pods):
        return sum(node.allocatable.cpu for node in nodes), lambda pod: pod.spec.requests.cpu
    if any(pod.spec.requests.memory for pod in pods):
        return sum(node.allocatable.memory for node in nodes), lambda pod: pod.spec.requests.memory
    room = sum(node.allocatable.pods for node in nodes)
    if not room:
        raise InputError(
            f"none of these {len(pods):,} pods asks for CPU, memory or GPUs, and no node says how many pods "
            "it takes: any node takes any of them"
        )
    return room, lambda pod: 1
