"""The pods of a workload as lanes draw them, and what one unit of their reward stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError
from proreus.worlds.pods.state.compile import Compiled

Reward = Literal["allocation", "completion"]


@dataclass(frozen=True, eq=False)
class BasePods:
    """What episodes are drawn from. B pods in the base workload."""

    work: F64
    """[B] seconds."""
    arrival: F64
    """[B]"""
    gap: F64
    """[B - 1], or [1] where there is one pod."""
    episode: int
    """Pods of an episode."""
    reward_scale: float
    """What a reward of 1 stands for."""
    by_cpu: bool
    """Allocation is measured by CPU, for nobody asks for GPUs."""


def base_pods(compiled_workload: Compiled, horizon: int, reward: Reward) -> BasePods:
    """`horizon`: pods in an episode, 0 for as many as the workload has."""
    pods = compiled_workload.workload.pods
    if not pods:
        raise UsageError(f"workload {compiled_workload.workload.name} has no pods to learn from")
    arrival = np.array([pod.arrival for pod in pods])
    work = np.array([pod.duration for pod in pods])
    if reward == "completion":
        work = _censored(work, arrival)
    return BasePods(
        work=work,
        arrival=arrival,
        gap=np.diff(arrival) if len(pods) > 1 else np.zeros(1),
        episode=horizon or len(pods),
        reward_scale=_scale(compiled_workload, reward, work),
        by_cpu=not _asks_for_gpus(compiled_workload),
    )


def _scale(compiled_workload: Compiled, reward: Reward, work: F64) -> float:
    """What one unit of reward stands for: a mean pod placed, or a mean pod's work in pod-seconds."""
    if reward == "completion":
        return max(float(work.mean()), 1e-9)
    classes = compiled_workload.cluster.classes
    gpus = _asks_for_gpus(compiled_workload)
    demand = classes.gpu_num * classes.gpu_milli if gpus else classes.request[:, 0]
    mean = float(demand[compiled_workload.cluster.pod_class].mean())
    if mean == 0:
        raise UsageError(
            f"none of the {len(work):,} pods of {compiled_workload.workload.name} asks for CPU or GPUs, "
            "which --reward allocation is measured by; --reward completion does without"
        )
    return mean


def _asks_for_gpus(compiled_workload: Compiled) -> bool:
    """Whether the nodes have GPUs, and some pod asks for them."""
    classes, nodes = compiled_workload.cluster.classes, compiled_workload.cluster.nodes
    asked = (classes.gpu_num * classes.gpu_milli)[compiled_workload.cluster.pod_class]
    return bool(nodes.gpu_count.any() and asked.any())


def _censored(work: F64, arrival: F64) -> F64:
    """What pods take that had not ended: as long as the record, or as the longest that ended if that is more.

    Less would let a policy gain by waiting for ends that nobody saw.
    """
    ended = np.isfinite(work)
    if ended.all():
        return work
    if not ended.any():
        raise UsageError("reward completion needs pods that end")
    return np.where(ended, work, max(float(work[ended].max()), float(arrival[-1] - arrival[0]), 1.0))


def why_on_the_host(workloads: Sequence[Compiled], *, evicts: bool = True) -> str | None:
    """Which rules of the workloads the lanes on a device do not have, in one line; None: they have all.

    evicts: whether a device is to say, too, whom to evict where no scorer says from which node.
    """
    for each in workloads:
        terms, classes = each.cluster.terms, each.cluster.classes
        preempting = classes.may_preempt & (classes.priority > min(int(classes.priority.min(initial=0)), 0))
        for there, what in (
            (bool(each.workload.ticked), "runs by ticks"),
            (classes.port.size > 0, "has pods with host ports"),
            (terms.need.size > 0, "has pods with required affinity"),
            (bool(terms.spread_hard.any()), "has hard topology spread constraints"),
            (not evicts and bool(preempting.any()), "has pods that preempt others"),
        ):
            if there:
                name = each.workload.name
                how = "--worlds host" if evicts else "--device cpu"
                return f"workload {name} {what}, which lanes on a device do not play: use {how}"
    return None
