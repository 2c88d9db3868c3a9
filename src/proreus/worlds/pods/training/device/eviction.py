"""Making room on one node of each lane: `state.victims` over tensors, one pod at a time.

MARK goes through the pods of lower priority, the most important first, and notes whose eviction would break a
budget. SPARE brings those back whom the node can keep beside the pod at hand, budget breakers first. TAKE_OFF
evicts the rest, and then the pod at hand is placed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.gather import at, first_by, put
from proreus.worlds.pods.training.device.columns import (
    CALLED,
    CANDIDATE,
    HAND_OUT,
    LOWER,
    MARK,
    POOLED,
    RUNNING,
    SPARE,
    SPARED,
    TAKE_OFF,
    UNMARKED,
    VICTIM,
    VIOLATING,
    VIOLATING_VICTIM,
    LaneState,
)
from proreus.worlds.pods.training.device.events import LaneRules, earn, enqueue, wake
from proreus.worlds.pods.training.device.filters import has_devices, has_room, lower_than, tightest_devices
from proreus.worlds.pods.training.device.placement import bits_of, expect, place, take_off
from proreus.worlds.pods.training.device.tables import Tables


def begin_eviction(tables: Tables, work: LaneState, where: Tensor, node: Tensor) -> None:
    """In these lanes room is made on the node for the pod at hand."""
    lanes, pods, nodes = work.lanes, work.pods, work.nodes
    level = at(pods.level, lanes.pod)
    lower = (pods.status == RUNNING) & (pods.node == node[:, None]) & (pods.level < level[:, None])
    first = CANDIDATE if lanes.taken.shape[1] else LOWER
    chosen = where[:, None]
    pods.mark.copy_(torch.where(chosen, torch.where(lower, first, UNMARKED), pods.mark))
    lanes.target = torch.where(where, node, lanes.target)
    without = {
        "dry_free": at(nodes.free, node) + _below(nodes.held, node, level),
        "dry_left": at(nodes.left, node) + _below(nodes.held_gpu, node, level),
        "dry_matching": _there(tables, nodes.matching, node) - _below(nodes.held_matching, node, level),
        "dry_avoided": _there(tables, nodes.avoided, node) - _below(nodes.held_avoided, node, level),
        "taken": torch.zeros_like(lanes.taken),
    }
    for name, column in without.items():
        setattr(lanes, name, torch.where(chosen, column, getattr(lanes, name)))
    lanes.change = lanes.change.masked_fill(where, 0)
    lanes.phase = torch.where(where, MARK if lanes.taken.shape[1] else SPARE, lanes.phase)


def _below(held: Tensor, node: Tensor, level: Tensor) -> Tensor:
    """[E, ..] of one node: the sum over the levels below."""
    return lower_than(at(held, node)[:, None], level)[:, 0]


def _there(tables: Tables, counts: Tensor, node: Tensor) -> Tensor:
    """[E, T]: counts by domain [E, T, D + 1] in the domains of one node."""
    domain = at(tables.lanes.domain.transpose(1, 2), node)
    return counts.gather(2, domain[:, :, None])[:, :, 0]


def evict(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """One pod in every lane that makes room."""
    lanes, pods = work.lanes, work.pods
    marking, sparing, taking = (lanes.phase == phase for phase in (MARK, SPARE, TAKE_OFF))
    busy = marking | sparing | taking
    sought = [
        torch.where(marking, CANDIDATE, torch.where(sparing, of_spare, of_take))[:, None]
        for of_spare, of_take in ((VIOLATING, VIOLATING_VICTIM), (LOWER, VICTIM))
    ]
    first, second = (pods.mark == mark for mark in sought)
    among = torch.where(first.any(1, keepdim=True), first, second) & busy[:, None]
    there, pod = first_by(among, (-pods.level, pods.since, pods.rank))

    if lanes.taken.shape[1]:
        _mark(tables, work, marking & there, pod)
    _spare(tables, work, sparing & there, pod)
    _take_off(tables, rules, work, taking & there, pod)
    _finish(tables, rules, work, taking & ~there)
    lanes.phase = lanes.phase.masked_fill(marking & ~there, SPARE)
    lanes.phase = lanes.phase.masked_fill(sparing & ~there, TAKE_OFF)


def _mark(tables: Tables, work: LaneState, where: Tensor, pod: Tensor) -> None:
    lanes, of = work.lanes, tables.lanes
    counted = tables.classes.budgets[at(work.pods.pod_class, pod)]
    lanes.taken = lanes.taken + (counted & where[:, None])
    wanted = torch.where(
        of.max_unavailable >= 0,
        torch.maximum(lanes.expected, lanes.healthy) - of.max_unavailable,
        of.min_available,
    )
    allowed = torch.where(of.allowed >= 0, of.allowed, (lanes.healthy - wanted.clamp(min=0)).clamp(min=0))
    breaks = (counted & (lanes.taken > allowed)).any(1)
    put(work.pods.mark, pod, torch.where(breaks, VIOLATING, LOWER), where)


def _spare(tables: Tables, work: LaneState, where: Tensor, pod: Tensor) -> None:
    lanes, classes = work.lanes, tables.classes
    c, own = at(work.pods.pod_class, pod), at(work.pods.pod_class, lanes.pod)
    free = lanes.dry_free - classes.request[c]
    left = lanes.dry_left
    fits = has_room(free, classes.request[own])
    if tables.gpus:
        held = bits_of(at(work.pods.devices, pod), tables.gpus)
        left = left - classes.gpu_milli[c][:, None] * held
        fits = fits & has_devices(tables, left, own)
    matching = lanes.dry_matching + classes.selected[c].long()
    avoided = lanes.dry_avoided + classes.avoids[c]
    if matching.shape[1]:
        apart = (classes.avoids[own] > 0) & (matching > 0) | classes.selected[own] & (avoided > 0)
        domain = at(tables.lanes.domain.transpose(1, 2), lanes.target)
        fits = fits & ~(apart & (domain < tables.domains)).any(1)
    kept = (where & fits)[:, None]
    lanes.dry_free = torch.where(kept, free, lanes.dry_free)
    lanes.dry_left = torch.where(kept, left, lanes.dry_left)
    lanes.dry_matching = torch.where(kept, matching, lanes.dry_matching)
    lanes.dry_avoided = torch.where(kept, avoided, lanes.dry_avoided)
    broke = at(work.pods.mark, pod) == VIOLATING
    victim = torch.where(broke, VIOLATING_VICTIM, VICTIM)
    put(work.pods.mark, pod, torch.where(fits, SPARED, victim), where)


def _take_off(tables: Tables, rules: LaneRules, work: LaneState, where: Tensor, pod: Tensor) -> None:
    lanes, pods = work.lanes, work.pods
    c = at(pods.pod_class, pod)
    take_off(tables, work, where, pod)
    lanes.change = lanes.change - torch.where(where, tables.classes.measured[c], 0)
    put(pods.mark, pod, UNMARKED, where)
    put(pods.attempts, pod, torch.zeros_like(pod), where)
    if rules.options.requeue_evicted:
        enqueue(work, where, pod)
    else:
        expect(tables, work, c, -where.long())
    called = tables.classes.excludes[c].gather(1, pods.pod_class) & (pods.status == POOLED)
    pods.mark.masked_fill_(called & where[:, None], CALLED)


def _finish(tables: Tables, rules: LaneRules, work: LaneState, where: Tensor) -> None:
    """All victims are gone: the pod at hand starts on the tightest devices, and others may be helped too."""
    lanes = work.lanes
    node, c = lanes.target, at(work.pods.pod_class, lanes.pod)
    devices = torch.zeros_like(node)
    if tables.gpus:
        num, milli = tables.classes.gpu_num[c], tables.classes.gpu_milli[c]
        chosen = tightest_devices(at(work.nodes.left, node), num, milli)
        devices = (chosen * (1 << torch.arange(tables.gpus, device=node.device))).sum(1)
    place(tables, work, where, node, devices)
    if not rules.completion:
        change = lanes.change + tables.classes.measured[c]
        earn(work, where, change / tables.lanes.reward_scale)
    if rules.options.drop_failures:
        work.pods.mark.masked_fill_(where[:, None], UNMARKED)
    else:
        wake(tables, rules, work, where, node, None)
    lanes.earned_until = torch.where(where, lanes.presence, lanes.earned_until)
    lanes.phase = lanes.phase.masked_fill(where, HAND_OUT)
