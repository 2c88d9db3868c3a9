"""The context of a decision: the pod, how full the cluster is, how many wait. Part of the pods encoding.

Everything is relative to the largest node or to the whole cluster, so that the figures mean the same on
7 nodes and on 5,000.
"""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F32, F64
from proreus.kernels.jit import compiled
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.compile import Compiled

CONTEXT_FEATURES = (
    "cpu_request",  # share of the largest node
    "memory_request",
    "gpu_devices",  # asked for, share of the largest node's
    "gpu_share",  # asked for on each device
    "cpu_only",  # the pod's kind, one of four
    "shares_gpu",
    "whole_gpu",
    "several_gpus",
    "priority",  # logarithm of its size with its sign; about 1 for the highest that users may set
    "cpu_in_use",  # share of the cluster
    "memory_in_use",
    "gpu_in_use",
    "fragmented",  # GPU share that typical pods cannot use, share of the cluster's
    "waiting",  # pods in the queue per node, logarithm
    "legal_nodes",  # share of the nodes that may take the pod
    "preempting",  # the choice is among nodes where others must go first
)
(
    CPU_REQUEST,
    MEMORY_REQUEST,
    GPU_DEVICES,
    GPU_SHARE,
    CPU_ONLY,
    SHARES_GPU,
    WHOLE_GPU,
    SEVERAL_GPUS,
    PRIORITY,
    CPU_IN_USE,
    MEMORY_IN_USE,
    GPU_IN_USE,
    FRAGMENTED,
    WAITING,
    LEGAL_NODES,
    PREEMPTING,
) = range(len(CONTEXT_FEATURES))

_PRIORITY_SCALE = 1.0 / math.log1p(1e9)

# What `context_scale` holds: the largest node, then the whole cluster.
NODE_CPU, NODE_MEMORY, NODE_DEVICES, ALL_CPU, ALL_MEMORY, ALL_GPU, NO_GPUS = range(7)


def context_scale(compiled_workload: Compiled) -> F64:
    """float64[7]: CPU, memory and devices of the largest node; CPU, memory and milli-GPU of the cluster;
    1 where there are no GPUs, else 0. None but the last is ever zero."""
    nodes = compiled_workload.cluster.nodes
    largest, total = nodes.allocatable.max(axis=0), nodes.allocatable.sum(axis=0)
    figures = [
        largest[0],
        largest[1],
        nodes.gpu_count.max(initial=0),
        total[0],
        total[1],
        nodes.gpu_count.sum() * GPU_WHOLE,
    ]
    whole = np.maximum(np.array(figures, dtype=np.float64), 1.0)
    return np.append(whole, 0.0 if nodes.gpu_count.any() else 1.0)


@compiled
def encode_context(cluster: Cluster, state: State, scale: F64, c: int, waiting: int, out: F32) -> None:
    """Fill out: float32[context features] for a pod of class c; `encode_choice` fills the last two."""
    classes = cluster.classes
    out[CPU_REQUEST] = classes.request[c, 0] / scale[NODE_CPU]
    out[MEMORY_REQUEST] = classes.request[c, 1] / scale[NODE_MEMORY]
    out[GPU_DEVICES] = classes.gpu_num[c] / scale[NODE_DEVICES]
    out[GPU_SHARE] = classes.gpu_milli[c] / 1000.0
    kind = classes.gpu_kind[c]
    out[CPU_ONLY] = 1.0 if kind < 0 else 0.0
    out[SHARES_GPU] = 1.0 if kind == 0 else 0.0
    out[WHOLE_GPU] = 1.0 if kind == 1 else 0.0
    out[SEVERAL_GPUS] = 1.0 if kind > 1 else 0.0
    priority = float(classes.priority[c])
    out[PRIORITY] = math.copysign(math.log1p(abs(priority)) * _PRIORITY_SCALE, priority)
    cpu = 0
    memory = 0
    gpu = 0
    fragment = 0.0
    nodes = state.first.shape[0]
    for n in range(nodes):
        cpu += state.free[n, 0]
        memory += state.free[n, 1]
        fragment += state.fragment[n]
        for d in range(cluster.nodes.gpu_count[n]):
            gpu += state.gpu_left[n, d]
    out[CPU_IN_USE] = 1.0 - cpu / scale[ALL_CPU]
    out[MEMORY_IN_USE] = 1.0 - memory / scale[ALL_MEMORY]
    out[GPU_IN_USE] = 1.0 - gpu / scale[ALL_GPU] if scale[NO_GPUS] == 0.0 else 0.0
    out[FRAGMENTED] = fragment / scale[ALL_GPU]
    out[WAITING] = math.log1p(waiting / nodes)


@compiled
def encode_choice(nodes: int, rows: int, preempting: bool, out: F32) -> None:
    """Fill the features of the context that say what there is to choose from."""
    out[LEGAL_NODES] = rows / nodes
    out[PREEMPTING] = 1.0 if preempting else 0.0
