"""Which nodes may take a pod, a block of nodes at a time: `device.filters` for one lane."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def block_legal(w, s, e, c, n, below):
    """bool[BN]: nodes n that may take class c; below > 0: without all pods of the levels before it.

    Without them is asked only of nodes that hold some, and of classes that evict.
    """
    is_node = n < tl.load(w.of.nodes + e)
    at_node = e * s.nodes + n
    fits = is_node & (tl.load(w.classes.fits + c * s.nodes + n, is_node, other=0) != 0)
    for r in tl.static_range(s.resources):
        asked = tl.load(w.classes.request + c * s.resources + r)
        free = tl.load(w.nodes.free + at_node * s.resources + r, is_node, other=0)
        if s.preemption:
            for level in range(0, below):
                at_level = at_node * s.levels + level
                free += tl.load(w.nodes.held + at_level * s.resources + r, is_node, other=0)
        fits = fits & ((asked <= free) | (asked <= 0))
    if s.gpus > 0:
        num = tl.load(w.classes.gpu_num + c)
        least = tl.maximum(tl.load(w.classes.gpu_milli + c), 1)
        count = tl.zeros_like(n).to(tl.int64)
        for g in tl.static_range(s.gpus):
            left = tl.load(w.nodes.left + at_node * s.gpus + g, is_node, other=0)
            if s.preemption:
                for level in range(0, below):
                    at_level = at_node * s.levels + level
                    left += tl.load(w.nodes.held_gpu + at_level * s.gpus + g, is_node, other=0)
            count += (left >= least).to(tl.int64)
        fits = fits & (count >= num)
    for t in tl.static_range(s.terms):
        domain = tl.load(w.of.domain + (e * s.terms + t) * s.nodes + n, is_node, other=0)
        at_domain = (e * s.terms + t) * (s.domains + 1) + domain
        matching = tl.load(w.nodes.matching + at_domain, is_node, other=0)
        avoided = tl.load(w.nodes.avoided + at_domain, is_node, other=0)
        if s.preemption:
            for level in range(0, below):
                at_level = (at_node * s.levels + level) * s.terms + t
                matching -= tl.load(w.nodes.held_matching + at_level, is_node, other=0)
                avoided -= tl.load(w.nodes.held_avoided + at_level, is_node, other=0)
        own = (tl.load(w.classes.avoids + c * s.terms + t) > 0) & (matching > 0)
        others = (tl.load(w.classes.selected + c * s.terms + t) != 0) & (avoided > 0)
        fits = fits & ~((own | others) & (domain < s.domains))
    return fits


@triton.jit
def block_evictable(w, s, e, c, n):
    """bool[BN]: nodes n that could take class c without all pods of lower priority, and hold some."""
    is_node = n < tl.load(w.of.nodes + e)
    level = tl.load(w.classes.level + c)
    there = tl.zeros_like(n).to(tl.int64)
    for below in range(0, level):
        at_level = (e * s.nodes + n) * s.levels + below
        there += tl.load(w.nodes.held_pods + at_level, is_node, other=0)
    return block_legal(w, s, e, c, n, level) & (there > 0)


@triton.jit
def is_stuck(w, s, e, c):
    """Whether no node may take class c, nor can it evict from any."""
    stuck = tl.full((), 1, tl.int1)
    for first in range(0, s.nodes, s.node_block):
        if stuck:
            n = first + tl.arange(0, s.node_block)
            stuck = tl.sum(block_legal(w, s, e, c, n, 0).to(tl.int32), 0) == 0
    if s.preemption:
        if stuck & (tl.load(w.classes.evicts + c) != 0):
            for first in range(0, s.nodes, s.node_block):
                if stuck:
                    n = first + tl.arange(0, s.node_block)
                    stuck = tl.sum(block_evictable(w, s, e, c, n).to(tl.int32), 0) == 0
    return stuck
