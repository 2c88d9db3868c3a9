"""What placing or removing a pod changes: `device.placement` for one lane.

w: `Columns`; s: `Sizes`; e: the lane.
"""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.worlds.pods.training.device import columns

_RUNNING = tl.constexpr(columns.RUNNING)
_GONE = tl.constexpr(columns.GONE)


@triton.jit
def place(w, s, e, pod, node, devices):
    """The pod starts on the node; devices: bit mask."""
    at_pod = e * s.pods + pod
    at_node = e * s.nodes + node
    clock = tl.load(w.lanes.clock + e)
    speed = tl.load(w.of.pace + at_node * 2)
    start = tl.load(w.of.pace + at_node * 2 + 1)
    placements = tl.load(w.lanes.placements + e)
    end = clock + start + tl.load(w.pods.work + at_pod) / speed
    tl.debug_barrier()
    tl.store(w.pods.status + at_pod, _RUNNING)
    tl.store(w.pods.node + at_pod, node)
    tl.store(w.pods.devices + at_pod, devices)
    tl.store(w.pods.since + at_pod, clock)
    tl.store(w.pods.rank + at_pod, placements)
    tl.store(w.pods.when + at_pod, end)
    tl.store(w.lanes.placements + e, placements + 1)
    tl.debug_barrier()
    shift(w, s, e, pod, node, 1)


@triton.jit
def take_off(w, s, e, pod):
    """A running pod leaves its node."""
    at_pod = e * s.pods + pod
    node = tl.load(w.pods.node + at_pod)
    tl.store(w.pods.status + at_pod, _GONE)
    tl.debug_barrier()
    shift(w, s, e, pod, node, -1)


@triton.jit
def expect(w, s, e, pod_class, sign):
    """So many pods more that their budgets count on, whether they run or wait."""
    if s.budgets > 0:
        b = tl.arange(0, s.wide_budgets)
        there = b < s.budgets
        counted = tl.load(w.classes.budgets + pod_class * s.budgets + b, there, other=0).to(tl.int64)
        add(w.lanes.expected + e * s.budgets + b, sign * counted, there)
        tl.debug_barrier()


@triton.jit
def add(places, values, there):
    """Some places += values."""
    before = tl.load(places, there, other=0)
    tl.store(places, before + values, there)


@triton.jit
def shift(w, s, e, pod, node, sign):
    """Add (1) or subtract (-1) the pod on the node in every sum."""
    at_pod = e * s.pods + pod
    at_node = e * s.nodes + node
    c = tl.load(w.pods.pod_class + at_pod)
    devices = tl.load(w.pods.devices + at_pod)
    r = tl.arange(0, s.wide_resources)
    is_resource = r < s.resources
    request = sign * tl.load(w.classes.request + c * s.resources + r, is_resource, other=0)
    add(w.nodes.free + at_node * s.resources + r, -request, is_resource)
    two = tl.arange(0, 2)
    add(w.nodes.scored + at_node * 2 + two, sign * tl.load(w.classes.scoring + c * 2 + two), two < 2)
    add_one(w.nodes.load + at_node, sign * tl.load(w.classes.load + c))
    add_one(w.nodes.pods + at_node, sign)
    add_one(w.lanes.running + e, sign)
    if s.budgets > 0:
        b = tl.arange(0, s.wide_budgets)
        is_budget = b < s.budgets
        counted = tl.load(w.classes.budgets + c * s.budgets + b, is_budget, other=0).to(tl.int64)
        add(w.lanes.healthy + e * s.budgets + b, sign * counted, is_budget)
    level = tl.load(w.classes.level + c)
    at_level = at_node * s.levels + level
    if s.gpus > 0:
        g = tl.arange(0, s.wide_gpus)
        is_gpu = g < s.gpus
        share = sign * tl.load(w.classes.gpu_milli + c) * ((devices >> g) & 1)
        add(w.nodes.left + at_node * s.gpus + g, -share, is_gpu)
        if s.preemption:
            add(w.nodes.held_gpu + at_level * s.gpus + g, share, is_gpu)
    if s.preemption:
        add(w.nodes.held + at_level * s.resources + r, request, is_resource)
        add_one(w.nodes.held_pods + at_level, sign)
    if s.terms > 0:
        t = tl.arange(0, s.wide_terms)
        is_term = t < s.terms
        selected = sign * tl.load(w.classes.selected + c * s.terms + t, is_term, other=0).to(tl.int64)
        avoids = sign * tl.load(w.classes.avoids + c * s.terms + t, is_term, other=0)
        domain = tl.load(w.of.domain + (e * s.terms + t) * s.nodes + node, is_term, other=0)
        at_domain = (e * s.terms + t) * (s.domains + 1) + domain
        add(w.nodes.matching + at_domain, selected, is_term)
        add(w.nodes.avoided + at_domain, avoids, is_term)
        if s.preemption:
            add(w.nodes.held_matching + at_level * s.terms + t, selected, is_term)
            add(w.nodes.held_avoided + at_level * s.terms + t, avoids, is_term)
    tl.debug_barrier()


@triton.jit
def add_one(place, value):
    """One place += value."""
    tl.store(place, tl.load(place) + value)


@triton.jit
def earn(w, e, reward):
    """A reward of this episode; what happens between its end and the next choice is nobody's merit."""
    if tl.load(w.lanes.ended + e) == 0:
        add_one(w.lanes.reward + e, reward)
        add_one(w.lanes.total + e, reward)
        tl.debug_barrier()
