"""What one lane stands at: rows and context of its choice, `device.features` and the end of `device.step`."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.worlds.pods.encoding import context as g
from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.features import block_features
from proreus.worlds.pods.training.device.fused.nodes import block_evictable, block_legal

_DECIDE = tl.constexpr(columns.DECIDE)
_HOLD = tl.constexpr(HOLD)
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
        count, preempts = _list_legal(w, seen, s, e, c)
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
            legal = tl.load(seen.legal + at_node, is_node, other=0) != 0
            features, devices, now = block_features(w, s, e, c, n)
            for place in tl.static_range(s.features):
                feature = tl.where(legal, features[place], 0.0).to(tl.float32)
                tl.store(seen.rows + at_node * s.features + place, feature, is_node)
            tl.store(seen.devices + at_node, devices, is_node)
            fragmented += tl.sum(tl.where(is_node, now, 0.0), 0)
            free_cpu += tl.sum(tl.load(w.nodes.free + at_node * s.resources, is_node, other=0), 0)
            free_memory += tl.sum(tl.load(w.nodes.free + at_node * s.resources + 1, is_node, other=0), 0)
            for d in tl.static_range(s.gpus):
                free_gpu += tl.sum(tl.load(w.nodes.left + at_node * s.gpus + d, is_node, other=0), 0)
        else:
            tl.store(seen.legal + at_node, tl.zeros((s.node_block,), tl.int1), is_node)
    if deciding:
        _context(w, seen, s, e, c, count, preempts, fragmented, (free_cpu, free_memory, free_gpu))
    _tell(w, told, e, ready & ~held)


@triton.jit
def _list_legal(w, seen, s, e, c):
    """Note which nodes may take class c, else which it may evict from; (how many, whether the latter)."""
    count = tl.zeros((), tl.int64)
    for first in range(0, s.nodes, s.node_block):
        n = first + tl.arange(0, s.node_block)
        legal = block_legal(w, s, e, c, n, 0)
        tl.store(seen.legal + e * s.nodes + n, legal, n < s.nodes)
        count += tl.sum(legal.to(tl.int64), 0)
    preempts = count < 0
    if s.preemption:
        if (count == 0) & (tl.load(w.classes.evicts + c) != 0):
            for first in range(0, s.nodes, s.node_block):
                n = first + tl.arange(0, s.node_block)
                legal = block_evictable(w, s, e, c, n)
                tl.store(seen.legal + e * s.nodes + n, legal, n < s.nodes)
                count += tl.sum(legal.to(tl.int64), 0)
            preempts = count > 0
    tl.debug_barrier()
    return count, preempts


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
