"""What pods ask for in all: the demand that fragmentation and features are measured against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from proreus.model.pod import GPU_WHOLE, PodSpec

Wish: TypeAlias = tuple[int, int, int, tuple[str, ...]]
"""CPU, milli-GPU per device, devices, GPU models."""


@dataclass(frozen=True)
class ResourceDemand:
    """Sums over pods, in the units of `Resources` and in milli-GPU."""

    pods: int
    cpu: int
    memory: int
    gpu: int
    shared_gpu: int
    """Of pods that share a device."""
    several_gpu: int
    """Of pods that take several whole devices."""
    wanted: tuple[tuple[Wish, int], ...]
    """How many pods want what: most frequent first; among equals the smaller, so that no order matters."""


def demand_of(pods: Iterable[tuple[PodSpec, int]]) -> ResourceDemand:
    """The demand of so many pods of each spec."""
    wanted: Counter[Wish] = Counter()
    count = cpu = memory = gpu = shared = several = 0
    for spec, times in pods:
        if not times:
            continue
        count += times
        asked = times * spec.gpu.count * spec.gpu.milli
        cpu += times * spec.requests.cpu
        memory += times * spec.requests.memory
        gpu += asked
        if spec.gpu.milli < GPU_WHOLE:
            shared += asked
        elif spec.gpu.count > 1:
            several += asked
        wanted[spec.requests.cpu, spec.gpu.milli, spec.gpu.count, spec.gpu.models] += times
    ranked = sorted(wanted.items(), key=lambda item: (-item[1], item[0]))
    return ResourceDemand(count, cpu, memory, gpu, shared, several, tuple(ranked))
