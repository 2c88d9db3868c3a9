"""What one lane stands at: rows and context of its choice, `device.features` and the end of `device.step`."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.worlds.pods.encoding import context as g
from proreus.worlds.pods.encoding import pair as p
from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.gpus import gpu_features
from proreus.worlds.pods.training.device.fused.nodes import block_evictable, block_legal, open_nodes

_DECIDE = tl.constexpr(columns.DECIDE)
_HOLD = tl.constexpr(-1)
_NETWORK, _DISK = tl.constexpr(4), tl.constexpr(5)
_FGD_SCORE = tl.constexpr(p.FGD_SCORE)
_CPU_LEFT = tl.constexpr(p.CPU_LEFT)
_CPU_LEFT_SHARE = tl.constexpr(p.CPU_LEFT_SHARE)
_MEMORY_LEFT_SHARE = tl.constexpr(p.MEMORY_LEFT_SHARE)
_CPU_MEMORY_IMBALANCE = tl.constexpr(p.CPU_MEMORY_IMBALANCE)
_CPU_CAPACITY = tl.constexpr(p.CPU_CAPACITY)
_EMPTY_NODE = tl.constexpr(p.EMPTY_NODE)
_LOT = tl.constexpr(p.LOT)
_ORDER = tl.constexpr(p.ORDER)
_LEAST_ALLOCATED = tl.constexpr(p.LEAST_ALLOCATED)
_BANDWIDTH_LEFT = tl.constexpr(p.BANDWIDTH_LEFT)
_MEASURED_LOAD = tl.constexpr(p.MEASURED_LOAD)
_SPEED = tl.constexpr(p.SPEED)
_ALL_CPU, _ALL_MEMORY = tl.constexpr(g.ALL_CPU), tl.constexpr(g.ALL_MEMORY)
_ALL_GPU, _NO_GPUS = tl.constexpr(g.ALL_GPU), tl.constexpr(g.NO_GPUS)
_CPU_IN_USE = tl.constexpr(g.CPU_IN_USE)
_MEMORY_IN_USE = tl.constexpr(g.MEMORY_IN_USE)
_GPU_IN_USE = tl.constexpr(g.GPU_IN_USE)
_FRAGMENTED = tl.constexpr(g.FRAGMENTED)
_WAITING = tl.constexpr(g.WAITING)
_LEGAL_NODES = tl.constexpr(g.LEGAL_NODES)
_PREEMPTING = tl.constexpr(g.PREEMPTING)


@triton.jit
def look(w, seen, told, action, s: tl.constexpr):
    """List what can be done with the pod at hand of one lane, and tell what came since the choice before.

    told: `Told`; action: int64[E], what the lane was asked to do.
    """
    e = tl.program_id(0).to(tl.int64)
    held = (tl.load(seen.ready + e) != 0) & (tl.load(action + e) == _HOLD)
    deciding = tl.load(w.lanes.phase + e) == _DECIDE
    count = tl.zeros((), tl.int64)
    preempts = count > 0
    c = tl.load(w.pods.pod_class + e * s.pods + tl.load(w.lanes.pod + e))
    if deciding:
        count, preempts = open_nodes(w, s, e, c)
    if s.may_delay:
        actions = count + 1
    else:
        actions = count
    if s.may_reject:
        actions += 1
    ready = (count > 0) & (actions > 1)
    tl.debug_barrier()
    tl.store(seen.ready + e, ready)
    tl.store(seen.preempts + e, preempts)
    fragmented = tl.zeros((), tl.float64)
    free_cpu = tl.zeros((), tl.int64)
    free_memory = tl.zeros((), tl.int64)
    free_gpu = tl.zeros((), tl.int64)
    for first in range(0, s.nodes, s.node_block):
        n = first + tl.arange(0, s.node_block)
        is_node = n < s.nodes
        at_node = e * s.nodes + n
        if deciding:
            if preempts:
                legal = block_evictable(w, s, e, c, n)
            else:
                legal = block_legal(w, s, e, c, n, 0)
            _node_features(w, seen, s, e, c, n, legal)
            if s.gpus > 0:
                fragmented += gpu_features(w, seen, s, e, c, n, legal)
            free_cpu += tl.sum(tl.load(w.nodes.free + at_node * s.resources, is_node, other=0), 0)
            free_memory += tl.sum(tl.load(w.nodes.free + at_node * s.resources + 1, is_node, other=0), 0)
            for d in tl.static_range(s.gpus):
                free_gpu += tl.sum(tl.load(w.nodes.left + at_node * s.gpus + d, is_node, other=0), 0)
            tl.store(seen.legal + at_node, legal, is_node)
        else:
            tl.store(seen.legal + at_node, tl.zeros((s.node_block,), tl.int1), is_node)
    if deciding:
        _context(w, seen, s, e, c, count, preempts, fragmented, (free_cpu, free_memory, free_gpu))
    _tell(w, told, e, ready & ~held)


@triton.jit
def _tell(w, told, e, came):
    """A lane that came to a choice tells what the one before it brought."""
    reward = tl.load(w.lanes.reward + e)
    ended = tl.load(w.lanes.ended + e) != 0
    tl.debug_barrier()
    tl.store(told.came + e, came)
    tl.store(told.reward + e, tl.where(came, reward, 0.0))
    tl.store(told.ended + e, came & ended)
    if came:
        tl.store(w.lanes.reward + e, 0.0)
        tl.store(w.lanes.ended + e, False)
        tl.store(w.lanes.empty + e, tl.zeros((), tl.int64))


@triton.jit
def put_feature(seen, s, e, n, legal, place: tl.constexpr, feature):
    """One feature of the rows of a block of nodes; zero for nodes that cannot be chosen."""
    at_row = (e * s.nodes + n) * s.features + place
    tl.store(seen.rows + at_row, tl.where(legal, feature.to(tl.float32), 0.0), n < s.nodes)


@triton.jit
def _node_features(w, seen, s, e, c, n, legal):
    """What is true of nodes with and without GPUs; features of GPUs are set to what they are without any."""
    is_node = n < s.nodes
    at_node = e * s.nodes + n
    at_free, at_class = at_node * s.resources, c * s.resources
    largest = tl.load(w.of.scale + e * 3)
    all_cpu = tl.load(w.of.allocatable + at_free, is_node, other=1)
    all_memory = tl.load(w.of.allocatable + at_free + 1, is_node, other=1)
    whole_cpu, whole_memory = tl.maximum(all_cpu, 1).to(tl.float64), tl.maximum(all_memory, 1).to(tl.float64)
    asked_cpu = tl.load(w.classes.request + at_class)
    asked_memory = tl.load(w.classes.request + at_class + 1)
    cpu_after = tl.load(w.nodes.free + at_free, is_node, other=0) - asked_cpu
    memory_after = tl.load(w.nodes.free + at_free + 1, is_node, other=0) - asked_memory
    cpu, memory = cpu_after.to(tl.float64) / whole_cpu, memory_after.to(tl.float64) / whole_memory
    scored_cpu = tl.load(w.nodes.scored + at_node * 2, is_node, other=0)
    scored_memory = tl.load(w.nodes.scored + at_node * 2 + 1, is_node, other=0)
    scored_cpu = all_cpu - scored_cpu - tl.load(w.classes.scoring + c * 2)
    scored_memory = all_memory - scored_memory - tl.load(w.classes.scoring + c * 2 + 1)
    unscored = scored_cpu.to(tl.float64) / whole_cpu + scored_memory.to(tl.float64) / whole_memory
    bandwidth = tl.full((s.node_block,), 1.0, tl.float64)
    for r in tl.static_range(_NETWORK, _DISK + 1):
        asked = tl.load(w.classes.request + at_class + r)
        there = tl.load(w.of.allocatable + at_free + r, is_node, other=0)
        rest = (tl.load(w.nodes.free + at_free + r, is_node, other=0) - asked).to(tl.float64)
        rest = rest / tl.maximum(there, 1).to(tl.float64)
        bandwidth = tl.where((asked > 0) & (there > 0), tl.minimum(bandwidth, rest), bandwidth)
    load = tl.load(w.nodes.load + at_node, is_node, other=0.0) + tl.load(w.classes.load_guess + c)
    none = tl.zeros((s.node_block,), tl.float64)
    for place in tl.static_range(s.features):
        if place == _FGD_SCORE:
            put_feature(seen, s, e, n, legal, place, none + 0.5)
        elif place == _CPU_LEFT:
            put_feature(seen, s, e, n, legal, place, cpu_after.to(tl.float64) / largest)
        elif place == _CPU_LEFT_SHARE:
            put_feature(seen, s, e, n, legal, place, cpu)
        elif place == _MEMORY_LEFT_SHARE:
            put_feature(seen, s, e, n, legal, place, memory)
        elif place == _CPU_MEMORY_IMBALANCE:
            put_feature(seen, s, e, n, legal, place, tl.abs(cpu - memory))
        elif place == _CPU_CAPACITY:
            put_feature(seen, s, e, n, legal, place, all_cpu.to(tl.float64) / largest)
        elif place == _EMPTY_NODE:
            pods = tl.load(w.nodes.pods + at_node, is_node, other=0)
            put_feature(seen, s, e, n, legal, place, tl.where(pods == 0, 1.0, none))
        elif place == _LOT:
            put_feature(seen, s, e, n, legal, place, tl.load(w.lot + n, is_node, other=0.0))
        elif place == _ORDER:
            put_feature(seen, s, e, n, legal, place, tl.load(w.of.order + at_node, is_node, other=0.0))
        elif place == _LEAST_ALLOCATED:
            put_feature(seen, s, e, n, legal, place, 0.5 * unscored)
        elif place == _BANDWIDTH_LEFT:
            put_feature(seen, s, e, n, legal, place, bandwidth)
        elif place == _MEASURED_LOAD:
            put_feature(seen, s, e, n, legal, place, load / whole_cpu)
        elif place == _SPEED:
            put_feature(seen, s, e, n, legal, place, tl.load(w.of.pace + at_node * 2, is_node, other=0.0))
        else:
            put_feature(seen, s, e, n, legal, place, none)
    if s.gpus == 0:
        tl.store(seen.devices + at_node, tl.zeros((s.node_block,), tl.int64), is_node)


@triton.jit
def _context(w, seen, s, e, c, count, preempts, fragmented, free):
    """The features of the choice as a whole; free: CPU, memory and GPU of all nodes."""
    at_context = seen.context + e * s.context
    i = tl.arange(0, s.wide_context)
    is_static = i < s.static_context
    static = tl.load(w.classes.context + c * s.static_context + i, is_static, other=0.0)
    tl.store(at_context + i, static, is_static)
    scale = w.of.context_scale + e * 7
    nodes = tl.load(w.of.nodes + e).to(tl.float64)
    cpu = 1.0 - free[0].to(tl.float64) / tl.load(scale + _ALL_CPU)
    memory = 1.0 - free[1].to(tl.float64) / tl.load(scale + _ALL_MEMORY)
    gpu = 1.0 - free[2].to(tl.float64) / tl.load(scale + _ALL_GPU)
    gpu = tl.where(tl.load(scale + _NO_GPUS) == 0.0, gpu, 0.0)
    waiting = tl.load(w.lanes.waiting + e).to(tl.float64)
    tl.store(at_context + _CPU_IN_USE, cpu.to(tl.float32))
    tl.store(at_context + _MEMORY_IN_USE, memory.to(tl.float32))
    tl.store(at_context + _GPU_IN_USE, gpu.to(tl.float32))
    tl.store(at_context + _FRAGMENTED, (fragmented / tl.load(scale + _ALL_GPU)).to(tl.float32))
    tl.store(at_context + _WAITING, tl.log(1.0 + waiting / nodes).to(tl.float32))
    tl.store(at_context + _LEGAL_NODES, (count.to(tl.float64) / nodes).to(tl.float32))
    tl.store(at_context + _PREEMPTING, preempts.to(tl.float32))
