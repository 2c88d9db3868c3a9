"""What the demand on a cluster looks like: eight figures, by which a policy knows where it is.

They are relative to what the cluster has, so that they mean the same on 10 nodes and on 5,000, and are taken
from the demand that `Compiled` holds: that of the whole workload in simulations, that of the pods seen lately
in a service and in the engine.
"""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.demand import ResourceDemand

FIGURES = (
    "cpu_per_gpu",  # asked for, relative to what the cluster has; logarithm to base 2
    "memory_per_gpu",
    "memory_per_cpu",
    "shared_gpu",  # share of the GPU demand
    "several_gpus",
    "named_models",  # share of the GPU demand that states models
    "models",  # how mixed the cluster's GPUs are: 0 of one model, towards 1 of many
    "no_gpus",  # 1: the cluster has none; 1/2: it has some, and nobody asks for them
)
WIDTHS = np.array([0.02, 0.5, 0.5, 0.05, 0.05, 0.05, 0.3, 0.1])
"""Demands that differ by so much in one figure are neighbours and no longer the same. Narrow where experts
stand close: the mean of weights that were trained apart is worse than either, by up to a point of allocation
where CPU is scarce."""
SPANS = np.array([2.0, 4.0, 4.0, 1.0, 1.0, 1.0, 1.5, 0.4])
"""How far in one figure what was learned still holds, as far as is known: CPU per GPU up to four times."""
_MOST = 8.0


def demand_figures(compiled_workload: Compiled) -> F64:
    """float64[8]: see `FIGURES`."""
    nodes, demand = compiled_workload.cluster.nodes, compiled_workload.demand
    supply = float(nodes.gpu_count.sum()) * GPU_WHOLE
    cpu = _filled(demand.cpu, float(nodes.allocatable[:, 0].sum()))
    memory = _filled(demand.memory, float(nodes.allocatable[:, 1].sum()))
    per_cpu = _log_ratio(memory, cpu)
    if demand.gpu == 0 or supply == 0.0:
        # Where nobody asks for GPUs now, somebody may tomorrow: nodes without any are another matter.
        return np.array([0.0, 0.0, per_cpu, 0.0, 0.0, 0.0, 0.0, 1.0 if supply == 0.0 else 0.5])
    gpu = demand.gpu / supply
    shares = np.bincount(nodes.gpu_model[nodes.gpu_count > 0], nodes.gpu_count[nodes.gpu_count > 0])
    return np.array(
        [
            _log_ratio(cpu, gpu),
            _log_ratio(memory, gpu),
            per_cpu,
            demand.shared_gpu / demand.gpu,
            demand.several_gpu / demand.gpu,
            _named(demand) / demand.gpu,
            1.0 - float(((shares / shares.sum()) ** 2).sum()),
            0.0,
        ]
    )


def _filled(asked: int, there: float) -> float:
    return asked / there if there > 0 else 0.0


def _log_ratio(asked: float, other: float) -> float:
    """How much more of one is asked for than of the other, bounded: 0 where neither is."""
    if asked == 0.0 and other == 0.0:
        return 0.0
    if asked == 0.0 or other == 0.0:
        return -_MOST if asked == 0.0 else _MOST
    return max(-_MOST, min(_MOST, math.log2(asked / other)))


def _named(demand: ResourceDemand) -> int:
    """Milli-GPU of pods that state which models they take."""
    return sum(times * milli * devices for (_, milli, devices, models), times in demand.wanted if models)
