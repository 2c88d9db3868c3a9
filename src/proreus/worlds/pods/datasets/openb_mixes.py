"""Other mixes of openb's pods, our own: what is scarce differs, the pods are those of the trace.

Each is drawn once, with a fixed seed, from the pods of the list `default`; the experiment then shuffles them
with the seed of the run, as it does with the published lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod

_SEED = 0


@dataclass(frozen=True)
class Mix:
    """A way to mix pods."""

    name: str
    what: str
    """What is other than in the trace, for lists."""
    pods: Callable[[Sequence[Pod], Sequence[Node]], tuple[Pod, ...]]
    """From the pods of the trace and the nodes to the pods of the mix, by arrival."""


def with_cpu_pods(pods: Sequence[Pod], factor: float) -> tuple[Pod, ...]:
    """`factor` times as many CPU-only pods, drawn from those there are."""
    cpu_only = [pod for pod in pods if pod.spec.gpu.count == 0]
    rest = [pod for pod in pods if pod.spec.gpu.count > 0]
    wanted = round(factor * len(cpu_only))
    return _by_arrival([*rest, *cpu_only[:wanted], *_drawn(cpu_only, wanted - len(cpu_only))])


def with_shared_gpus(pods: Sequence[Pod], share: float) -> tuple[Pod, ...]:
    """As many GPU pods, drawn so that those which share a device ask for that share of the GPUs."""
    wanting = [pod for pod in pods if pod.spec.gpu.count > 0]
    sharing = [pod for pod in wanting if pod.spec.gpu.milli < GPU_WHOLE]
    others = [pod for pod in wanting if pod.spec.gpu.milli == GPU_WHOLE]
    of_sharing, of_others = _mean_demand(sharing), _mean_demand(others)
    shares = share * of_others / (share * of_others + (1.0 - share) * of_sharing)
    count = round(len(wanting) * shares)
    cpu_only = [pod for pod in pods if pod.spec.gpu.count == 0]
    return _by_arrival([*cpu_only, *_drawn(sharing, count), *_drawn(others, len(wanting) - count)])


def with_several_gpus(pods: Sequence[Pod], share: float) -> tuple[Pod, ...]:
    """All pods, and as many more that take several devices as make that share of the GPU demand."""
    several = [pod for pod in pods if pod.spec.gpu.count > 1]
    total = sum(_demand(pod) for pod in pods)
    missing = (share * total - sum(map(_demand, several))) / (1.0 - share)
    return _by_arrival([*pods, *_drawn(several, round(missing / _mean_demand(several)))])


def with_named_models(pods: Sequence[Pod], nodes: Sequence[Node], share: float) -> tuple[Pod, ...]:
    """That share of the GPU pods takes one model only: one of a node that could take it, drawn by devices."""
    random = np.random.default_rng(_SEED)
    named = []
    for pod in pods:
        gpu = pod.spec.gpu
        if gpu.count == 0 or random.random() >= share:
            named.append(pod)
            continue
        able = [node for node in nodes if node.gpu_count >= gpu.count]
        devices = np.array([node.gpu_count for node in able], dtype=np.float64)
        node = able[int(random.choice(len(able), p=devices / devices.sum()))]
        wish = replace(gpu, models=(node.gpu_model,))
        named.append(replace(pod, spec=replace(pod.spec, gpu=wish)))
    return tuple(named)


def _drawn(pods: Sequence[Pod], count: int) -> list[Pod]:
    """So many of them under new names, drawn with repetition; none where the count is negative."""
    places = np.random.default_rng(_SEED).integers(0, len(pods), size=max(0, count)).tolist()
    return [replace(pods[i], name=f"{pods[i].name}-mix{k}") for k, i in enumerate(places)]


def _by_arrival(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: pod.arrival))


def _demand(pod: Pod) -> int:
    return pod.spec.gpu.count * pod.spec.gpu.milli


def _mean_demand(pods: Sequence[Pod]) -> float:
    return float(np.mean([_demand(pod) for pod in pods]))


def _cpu(factor: float) -> Mix:
    return Mix(
        f"cpu{round(100 * factor)}",
        f"{factor:g} times the CPU-only pods",
        lambda pods, nodes: with_cpu_pods(pods, factor),
    )


def _share(percent: int) -> Mix:
    return Mix(
        f"gpushare{percent}",
        f"{percent} % of the GPU demand on shared devices",
        lambda pods, nodes: with_shared_gpus(pods, percent / 100),
    )


def _several(percent: int) -> Mix:
    return Mix(
        f"multigpu{percent}",
        f"{percent} % of the GPU demand by pods that take several devices",
        lambda pods, nodes: with_several_gpus(pods, percent / 100),
    )


def _models(percent: int) -> Mix:
    return Mix(
        f"gpuspec{percent}",
        f"{percent} % of the GPU pods for one model only",
        lambda pods, nodes: with_named_models(pods, nodes, percent / 100),
    )


MIXES = (
    *(_cpu(factor) for factor in (1.5, 1.75, 2.0, 2.1, 2.25, 2.35, 2.5, 2.75, 3.0)),
    *(_share(percent) for percent in (60, 80, 90, 100)),
    *(_several(percent) for percent in (35, 50)),
    *(_models(percent) for percent in (20, 33)),
)
