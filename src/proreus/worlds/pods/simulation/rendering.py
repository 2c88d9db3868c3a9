"""A run of pods to look at: nodes as text for --watch, as boxes with gauges for pictures."""

from __future__ import annotations

import numpy as np

from proreus.contract.replay import Levels, Stage, levels_of
from proreus.contract.text_bars import MOST_LINES, cpu_and_memory
from proreus.kernels.arrays import F64
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_CPU, COL_MEMORY
from proreus.worlds.pods.state.columns import Nodes, State
from proreus.worlds.pods.state.compile import Compiled


def shares_in_use(nodes: Nodes, state: State) -> F64:
    """[N, 3] of CPU, memory and GPUs; 0 where a node has none."""
    columns = [COL_CPU, COL_MEMORY]
    room = nodes.allocatable[:, columns].astype(np.float64)
    used = room - state.free[:, columns]
    devices = np.arange(state.gpu_left.shape[1]) < nodes.gpu_count[:, None]
    gpus = nodes.gpu_count.astype(np.float64) * GPU_WHOLE
    gpus_used = gpus - np.where(devices, state.gpu_left, 0).sum(axis=1)
    room, used = np.column_stack((room, gpus)), np.column_stack((used, gpus_used))
    return np.where(room > 0, used / np.maximum(room, 1.0), 0.0)


def stage_of(compiled: Compiled) -> Stage:
    """Nodes as boxes of one compartment each."""
    names = tuple(node.name for node in compiled.workload.nodes)
    gauges = ("CPU", "memory", "GPU") if compiled.cluster.nodes.gpu_count.any() else ("CPU", "memory")
    return Stage("node", names, gauges, all_moves=False, clock=True)


def levels_now(shares: F64, stage: Stage) -> Levels:
    """[N, 1, gauges]."""
    return levels_of(shares[:, None, : len(stage.gauges)])


def node_lines(compiled: Compiled, state: State, chosen: int) -> list[str]:
    """A line a node: bars for its CPU and memory, its GPUs in use; `chosen`: where the last pod went."""
    nodes = compiled.cluster.nodes
    shares, names = shares_in_use(nodes, state), [node.name for node in compiled.workload.nodes]
    pods = np.bincount(state.pod_node[state.pod_node >= 0], minlength=len(names))
    widest = max(map(len, names[:MOST_LINES]))
    lines = []
    for n, name in enumerate(names[:MOST_LINES]):
        cpu, memory, gpu = shares[n].tolist()
        bars = cpu_and_memory((cpu, memory), (f"{cpu:>5.0%}", f"{memory:>5.0%}"))
        has = f"  gpu {gpu * nodes.gpu_count[n]:>4.3g} of {nodes.gpu_count[n]}" if nodes.gpu_count[n] else ""
        lines.append(f"{'→' if n == chosen else ' '}{name:>{widest}} {bars}{has}  {pods[n]:>3} pods")
    if len(names) > MOST_LINES:
        lines.append(f" {'':>{widest}} ... and {len(names) - MOST_LINES:,} more nodes")
    return lines
