"""Making room on one node of one lane, a pod at a time: `device.eviction`."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.placement import add_one, earn, expect, place, take_off
from proreus.worlds.pods.training.device.fused.queue import enqueue, first_of_block, is_before, wake

_RUNNING = tl.constexpr(columns.RUNNING)
_POOLED = tl.constexpr(columns.POOLED)
_HAND_OUT = tl.constexpr(columns.HAND_OUT)
_MARK = tl.constexpr(columns.MARK)
_SPARE = tl.constexpr(columns.SPARE)
_TAKE_OFF = tl.constexpr(columns.TAKE_OFF)
_UNMARKED = tl.constexpr(columns.UNMARKED)
_CANDIDATE = tl.constexpr(columns.CANDIDATE)
_LOWER = tl.constexpr(columns.LOWER)
_VIOLATING = tl.constexpr(columns.VIOLATING)
_SPARED = tl.constexpr(columns.SPARED)
_VICTIM = tl.constexpr(columns.VICTIM)
_VIOLATING_VICTIM = tl.constexpr(columns.VIOLATING_VICTIM)
_CALLED = tl.constexpr(columns.CALLED)
_LAST = tl.constexpr(1 << 62)


@triton.jit
def begin_eviction(w, s, e, pod, node):
    """Room is made on the node for the pod at hand."""
    level = tl.load(w.pods.level + e * s.pods + pod)
    arrived = tl.load(w.lanes.arrivals + e)
    if s.budgets > 0:
        first = _CANDIDATE
        phase = _MARK
    else:
        first = _LOWER
        phase = _SPARE
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        running = tl.load(w.pods.status + at_pod, i < arrived, other=0) == _RUNNING
        lower = running & (tl.load(w.pods.node + at_pod, running, other=-1) == node)
        lower = lower & (tl.load(w.pods.level + at_pod, lower, other=0) < level)
        tl.store(w.pods.mark + at_pod, tl.where(lower, first, _UNMARKED).to(tl.int8), i < arrived)
    at_node = e * s.nodes + node
    r = tl.arange(0, s.wide_resources)
    is_resource = r < s.resources
    free = tl.load(w.nodes.free + at_node * s.resources + r, is_resource, other=0)
    for below in range(0, level):
        at_level = (at_node * s.levels + below) * s.resources + r
        free += tl.load(w.nodes.held + at_level, is_resource, other=0)
    tl.store(w.lanes.dry_free + e * s.resources + r, free, is_resource)
    if s.gpus > 0:
        g = tl.arange(0, s.wide_gpus)
        left = tl.load(w.nodes.left + at_node * s.gpus + g, g < s.gpus, other=0)
        for below in range(0, level):
            at_level = (at_node * s.levels + below) * s.gpus + g
            left += tl.load(w.nodes.held_gpu + at_level, g < s.gpus, other=0)
        tl.store(w.lanes.dry_left + e * s.gpus + g, left, g < s.gpus)
    if s.terms > 0:
        t = tl.arange(0, s.wide_terms)
        is_term = t < s.terms
        domain = tl.load(w.of.domain + (e * s.terms + t) * s.nodes + node, is_term, other=0)
        at_domain = (e * s.terms + t) * (s.domains + 1) + domain
        matching = tl.load(w.nodes.matching + at_domain, is_term, other=0)
        avoided = tl.load(w.nodes.avoided + at_domain, is_term, other=0)
        for below in range(0, level):
            at_level = (at_node * s.levels + below) * s.terms + t
            matching -= tl.load(w.nodes.held_matching + at_level, is_term, other=0)
            avoided -= tl.load(w.nodes.held_avoided + at_level, is_term, other=0)
        tl.store(w.lanes.dry_matching + e * s.terms + t, matching, is_term)
        tl.store(w.lanes.dry_avoided + e * s.terms + t, avoided, is_term)
    if s.budgets > 0:
        b = tl.arange(0, s.wide_budgets)
        none = tl.zeros((s.wide_budgets,), tl.int64)
        tl.store(w.lanes.taken + e * s.budgets + b, none, b < s.budgets)
    tl.store(w.lanes.target + e, node)
    tl.store(w.lanes.change + e, tl.zeros((), tl.int64))
    tl.store(w.lanes.phase + e, phase)
    tl.debug_barrier()


@triton.jit
def evict(w, s, e):
    """One pod, if the lane makes room."""
    phase = tl.load(w.lanes.phase + e)
    if phase == _MARK:
        pod = _first_marked(w, s, e, _CANDIDATE)
        if pod < 0:
            tl.store(w.lanes.phase + e, _SPARE)
        else:
            _mark(w, s, e, pod)
        tl.debug_barrier()
    if phase == _SPARE:
        pod = _first_of_either(w, s, e, _VIOLATING, _LOWER)
        if pod < 0:
            tl.store(w.lanes.phase + e, _TAKE_OFF)
        else:
            _spare(w, s, e, pod)
        tl.debug_barrier()
    if phase == _TAKE_OFF:
        pod = _first_of_either(w, s, e, _VIOLATING_VICTIM, _VICTIM)
        if pod < 0:
            _finish(w, s, e)
        else:
            _take_off(w, s, e, pod)
        tl.debug_barrier()


@triton.jit
def _first_of_either(w, s, e, one, other):
    """The first pod with one mark, else of those with another; -1: none."""
    pod = _first_marked(w, s, e, one)
    if pod < 0:
        pod = _first_marked(w, s, e, other)
    return pod


@triton.jit
def _first_marked(w, s, e, mark):
    """Of the pods with this mark, the most important, then the one that has run longest; -1: none."""
    arrived = tl.load(w.lanes.arrivals + e)
    pod = tl.full((), -1, tl.int64)
    best = tl.full((), float("inf"), tl.float64)
    next_best = tl.full((), float("inf"), tl.float64)
    last_best = tl.full((), _LAST, tl.int64)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        among = tl.load(w.pods.mark + at_pod, i < arrived, other=0) == mark
        if tl.sum(among.to(tl.int32), 0) > 0:
            urgency = -tl.load(w.pods.level + at_pod, among, other=0).to(tl.float64)
            since = tl.load(w.pods.since + at_pod, among, other=0.0)
            rank = tl.load(w.pods.rank + at_pod, among, other=0)
            first, second, third, place = first_of_block(among, urgency, since, rank, i)
            if is_before(first, second, third, best, next_best, last_best):
                best = first
                next_best = second
                last_best = third
                pod = place
    return pod


@triton.jit
def _mark(w, s, e, pod):
    """Whether its eviction would break a budget."""
    if s.budgets > 0:
        b = tl.arange(0, s.wide_budgets)
        is_budget = b < s.budgets
        at_budget = e * s.budgets + b
        c = tl.load(w.pods.pod_class + e * s.pods + pod)
        counted = tl.load(w.classes.budgets + c * s.budgets + b, is_budget, other=0) != 0
        taken = tl.load(w.lanes.taken + at_budget, is_budget, other=0) + counted.to(tl.int64)
        healthy = tl.load(w.lanes.healthy + at_budget, is_budget, other=0)
        expected = tl.load(w.lanes.expected + at_budget, is_budget, other=0)
        most = tl.load(w.of.max_unavailable + at_budget, is_budget, other=-1)
        least = tl.load(w.of.min_available + at_budget, is_budget, other=0)
        said = tl.load(w.of.allowed + at_budget, is_budget, other=-1)
        wanted = tl.where(most >= 0, tl.maximum(expected, healthy) - most, least)
        allowed = tl.where(said >= 0, said, tl.maximum(healthy - tl.maximum(wanted, 0), 0))
        breaks = tl.max((counted & (taken > allowed)).to(tl.int32), 0)
        tl.debug_barrier()
        tl.store(w.lanes.taken + at_budget, taken, is_budget)
        tl.store(w.pods.mark + e * s.pods + pod, tl.where(breaks > 0, _VIOLATING, _LOWER).to(tl.int8))


@triton.jit
def _spare(w, s, e, pod):
    """Keep the pod, if the one at hand fits beside it."""
    at_pod = e * s.pods + pod
    c = tl.load(w.pods.pod_class + at_pod)
    own = tl.load(w.pods.pod_class + e * s.pods + tl.load(w.lanes.pod + e))
    r = tl.arange(0, s.wide_resources)
    is_resource = r < s.resources
    free = tl.load(w.lanes.dry_free + e * s.resources + r, is_resource, other=0)
    free -= tl.load(w.classes.request + c * s.resources + r, is_resource, other=0)
    asked = tl.load(w.classes.request + own * s.resources + r, is_resource, other=0)
    lacking = tl.sum(((asked > free) & (asked > 0)).to(tl.int32), 0)
    fits = lacking == 0
    if s.gpus > 0:
        g = tl.arange(0, s.wide_gpus)
        held = (tl.load(w.pods.devices + at_pod) >> g) & 1
        left = tl.load(w.lanes.dry_left + e * s.gpus + g, g < s.gpus, other=0)
        left -= tl.load(w.classes.gpu_milli + c) * held
        least = tl.maximum(tl.load(w.classes.gpu_milli + own), 1)
        enough = tl.sum(((left >= least) & (g < s.gpus)).to(tl.int64), 0)
        fits = fits & (enough >= tl.load(w.classes.gpu_num + own))
    if s.terms > 0:
        t = tl.arange(0, s.wide_terms)
        is_term = t < s.terms
        selected = tl.load(w.classes.selected + c * s.terms + t, is_term, other=0).to(tl.int64)
        matching = tl.load(w.lanes.dry_matching + e * s.terms + t, is_term, other=0) + selected
        avoided = tl.load(w.lanes.dry_avoided + e * s.terms + t, is_term, other=0)
        avoided += tl.load(w.classes.avoids + c * s.terms + t, is_term, other=0)
        own_avoids = tl.load(w.classes.avoids + own * s.terms + t, is_term, other=0) > 0
        own_selected = tl.load(w.classes.selected + own * s.terms + t, is_term, other=0) != 0
        at_domain = (e * s.terms + t) * s.nodes + tl.load(w.lanes.target + e)
        domain = tl.load(w.of.domain + at_domain, is_term, other=0)
        apart = (own_avoids & (matching > 0)) | (own_selected & (avoided > 0))
        fits = fits & (tl.sum((apart & (domain < s.domains) & is_term).to(tl.int32), 0) == 0)
    broke = tl.load(w.pods.mark + at_pod) == _VIOLATING
    mark = tl.where(fits, _SPARED, tl.where(broke, _VIOLATING_VICTIM, _VICTIM))
    tl.debug_barrier()
    if fits:
        tl.store(w.lanes.dry_free + e * s.resources + r, free, is_resource)
        if s.gpus > 0:
            tl.store(w.lanes.dry_left + e * s.gpus + g, left, g < s.gpus)
        if s.terms > 0:
            tl.store(w.lanes.dry_matching + e * s.terms + t, matching, is_term)
            tl.store(w.lanes.dry_avoided + e * s.terms + t, avoided, is_term)
    tl.store(w.pods.mark + at_pod, mark.to(tl.int8))


@triton.jit
def _take_off(w, s, e, pod):
    at_pod = e * s.pods + pod
    c = tl.load(w.pods.pod_class + at_pod)
    take_off(w, s, e, pod)
    add_one(w.lanes.change + e, -tl.load(w.classes.measured + c))
    tl.store(w.pods.mark + at_pod, _UNMARKED)
    tl.store(w.pods.attempts + at_pod, tl.zeros((), tl.int64))
    if s.requeue_evicted:
        enqueue(w, s, e, pod)
    else:
        expect(w, s, e, c, -1)
    arrived = tl.load(w.lanes.arrivals + e)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        pooled = tl.load(w.pods.status + e * s.pods + i, i < arrived, other=0) == _POOLED
        if tl.sum(pooled.to(tl.int32), 0) > 0:
            waiting = tl.load(w.pods.pod_class + e * s.pods + i, pooled, other=0)
            called = tl.load(w.classes.excludes + c * s.classes + waiting, pooled, other=0) != 0
            mark = tl.full((s.pod_block,), _CALLED, tl.int8)
            tl.store(w.pods.mark + e * s.pods + i, mark, called & pooled)


@triton.jit
def _finish(w, s, e):
    """All victims are gone: the pod at hand starts on the tightest devices, and others may be helped too."""
    pod = tl.load(w.lanes.pod + e)
    node = tl.load(w.lanes.target + e)
    c = tl.load(w.pods.pod_class + e * s.pods + pod)
    devices = tl.zeros((), tl.int64)
    if s.gpus > 0:
        devices = _tightest(w, s, e * s.nodes + node, c)
    place(w, s, e, pod, node, devices)
    if not s.completion:
        change = tl.load(w.lanes.change + e) + tl.load(w.classes.measured + c)
        earn(w, e, change / tl.load(w.of.reward_scale + e))
    if s.drop_failures:
        arrived = tl.load(w.lanes.arrivals + e)
        for block in range(0, arrived, s.pod_block):
            i = block + tl.arange(0, s.pod_block)
            unmarked = tl.full((s.pod_block,), _UNMARKED, tl.int8)
            tl.store(w.pods.mark + e * s.pods + i, unmarked, i < arrived)
    else:
        wake(w, s, e, node, -1)
    tl.store(w.lanes.earned_until + e, tl.load(w.lanes.presence + e))
    tl.store(w.lanes.phase + e, _HAND_OUT)


@triton.jit
def _tightest(w, s, at_node, c):
    """Bit mask of the devices with least left that still fit; ties go to the lowest index."""
    g = tl.arange(0, s.wide_gpus)
    left = tl.load(w.nodes.left + at_node * s.gpus + g, g < s.gpus, other=0)
    fits = (left >= tl.maximum(tl.load(w.classes.gpu_milli + c), 1)) & (g < s.gpus)
    key = tl.where(fits, left * s.gpus + g, 1 << 40)
    before = tl.sum((key[None, :] < key[:, None]).to(tl.int64), 1)
    chosen = fits & (before < tl.load(w.classes.gpu_num + c))
    return tl.sum(tl.where(chosen, tl.full((s.wide_gpus,), 1, tl.int64) << g, 0), 0)
