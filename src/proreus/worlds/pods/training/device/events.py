"""Time in the lanes: one event of each at once. `simulation.kernel.advance` and its queue over tensors.

Pods of an episode are drawn when they arrive: the generator is a counter, so that this gives what drawing all
of them beforehand gives. A lane that hands out a pod waits in DECIDE.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.gather import at, first_by, put, reset
from proreus.learning.tensor_lanes.splitmix import ahead, next_below
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.training.device.columns import (
    ACTIVE,
    ARRIVE,
    BACKING_OFF,
    CALLED,
    DECIDE,
    DECIDING,
    DEPART,
    HAND_OUT,
    NEW_EPISODE,
    POOLED,
    RUNNING,
    UNMARKED,
    WOKEN,
    LaneState,
    empty_clusters,
)
from proreus.worlds.pods.training.device.filters import has_devices, has_room
from proreus.worlds.pods.training.device.placement import expect, take_off
from proreus.worlds.pods.training.device.tables import Tables

_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 10.0


@dataclass(frozen=True)
class LaneRules:
    """What holds for all lanes."""

    options: PodsOptions
    completion: bool
    """Rewards are by the time that pods are in the system, else by what is placed."""
    redraw: bool
    may_delay: bool
    may_reject: bool


def earn(work: LaneState, where: Tensor, reward: Tensor) -> None:
    """Rewards of this episode; what happens between its end and the next choice is nobody's merit."""
    lanes = work.lanes
    earned = torch.where(where & ~lanes.ended, reward, 0.0)
    lanes.reward = lanes.reward + earned
    lanes.total = lanes.total + earned


def stamp(work: LaneState, where: Tensor, pod: Tensor) -> None:
    """Note when the pod came into the queue, or failed."""
    put(work.pods.queued, pod, work.lanes.clock, where)
    put(work.pods.ticket, pod, work.lanes.sequence, where)
    work.lanes.sequence = work.lanes.sequence + where


def enqueue(work: LaneState, where: Tensor, pod: Tensor) -> None:
    """A pod that is new to the queue."""
    stamp(work, where, pod)
    put(work.pods.status, pod, ACTIVE, where)
    work.lanes.waiting = work.lanes.waiting + where
    work.lanes.eligible = work.lanes.eligible + where


def backoff_end(failed: Tensor, attempts: Tensor) -> Tensor:
    """`queueing_hints.backoff_end`."""
    tries = (attempts - 1).clamp(0, 8)  # the longest is reached long before
    wait = (_FIRST_BACKOFF * (1 << tries).double()).clamp(max=_LONGEST_BACKOFF)
    return torch.floor(failed + wait) + 1.0


def begin_episodes(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """Lanes whose episode ended, and new ones, at the beginning of the next."""
    lanes, pods = work.lanes, tables.pods
    new = lanes.phase == NEW_EPISODE
    empty_clusters(tables, work, new)
    if rules.redraw:
        lanes.drawn_from = torch.where(new, lanes.rng, lanes.drawn_from)
        lanes.rng = torch.where(new, ahead(lanes.rng, 2 * pods.episode - 1), lanes.rng)
        first = torch.zeros_like(lanes.clock)
    else:
        first = pods.arrival[pods.start]
    for name, fresh in (("clock", first), ("arrival", first)):
        setattr(lanes, name, torch.where(new, fresh, getattr(lanes, name)))
    for name in _OF_AN_EPISODE:
        column = getattr(lanes, name)
        wide = new.reshape(-1, *[1] * (column.dim() - 1))
        setattr(lanes, name, column.masked_fill(wide, 0))
    lanes.phase = lanes.phase.masked_fill(new, HAND_OUT)


_OF_AN_EPISODE = (
    "arrivals",
    "sequence",
    "placements",
    "waiting",
    "eligible",
    "running",
    "presence",
    "earned_until",
    "total",
    "length",
    "healthy",
    "expected",
)


def advance(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """One event in every lane that is between two decisions; several where they need no second look."""
    _move_clocks(tables, rules, work)
    if tables.ends:
        _depart(tables, rules, work)
    else:
        work.lanes.phase = torch.where(work.lanes.phase == DEPART, ARRIVE, work.lanes.phase)
    _arrive(tables, rules, work)
    _hand_out(tables, rules, work)


def _move_clocks(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """Nobody stands in the queue: on to the next time at which anything happens, or the episode is over."""
    lanes, pods = work.lanes, work.pods
    idle = (lanes.phase == HAND_OUT) & (lanes.eligible == 0)
    timed = (pods.status == RUNNING) | (pods.status == BACKING_OFF)
    time = torch.minimum(torch.where(timed, pods.when, torch.inf).amin(1), lanes.arrival)
    over = idle & torch.isinf(time)
    moving = idle & ~over
    passed = torch.where(moving, torch.maximum(time, lanes.clock) - lanes.clock, 0.0)
    lanes.presence = torch.where(
        moving, lanes.presence + (lanes.waiting + lanes.running) * passed, lanes.presence
    )
    lanes.clock = torch.where(moving, torch.maximum(time, lanes.clock), lanes.clock)
    lanes.phase = lanes.phase.masked_fill(moving, DEPART)

    if rules.completion:
        _pay_for_time(tables, work, over)
    first = over & ~lanes.ended
    lanes.ended_episodes = lanes.ended_episodes + first
    lanes.ended_length = lanes.ended_length + torch.where(first, lanes.length, 0)
    lanes.ended_total = lanes.ended_total + torch.where(first, lanes.total, 0.0)
    lanes.ended = lanes.ended | over
    lanes.empty = lanes.empty + over
    lanes.phase = lanes.phase.masked_fill(over, NEW_EPISODE)


def _pay_for_time(tables: Tables, work: LaneState, where: Tensor) -> None:
    lanes = work.lanes
    earn(work, where, -(lanes.presence - lanes.earned_until) / tables.lanes.reward_scale)


def _depart(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """One pod whose time has come, in the order of their ends; with the last of them arrivals may come."""
    lanes, pods = work.lanes, work.pods
    departing = lanes.phase == DEPART
    due = (pods.status == RUNNING) & (pods.when <= lanes.clock[:, None]) & departing[:, None]
    there, pod = first_by(due, (pods.when, pods.rank))
    c, node = at(pods.pod_class, pod), at(pods.node, pod)
    expect(tables, work, c, -there.long())
    take_off(tables, work, there, pod)
    if not rules.options.drop_failures:
        wake(tables, rules, work, there, node, tables.classes.excludes[c])
    lanes.phase = torch.where(departing & (due.sum(1) <= 1), ARRIVE, lanes.phase)


def wake(
    tables: Tables, rules: LaneRules, work: LaneState, where: Tensor, node: Tensor, called: Tensor | None
) -> None:
    """Pods left a node: bring back the pooled pods that this may help.

    called: bool[E, C], classes that a pod which left stood in the way of; None: such pods are marked.
    """
    lanes, pods, classes = work.lanes, work.pods, tables.classes
    of_lane = tables.lanes.classes  # [E, K]
    free = at(work.nodes.free, node)[:, None]
    request = classes.request[of_lane]
    fits_empty = classes.fits[of_lane, node[:, None]]
    fits = fits_empty & has_room(free, request)
    if tables.gpus:
        fits = fits & has_devices(tables, at(work.nodes.left, node)[:, None], of_lane)
    if tables.preemption:
        level = classes.level[of_lane]
        lower = lower_than_each(at(work.nodes.held, node), level)
        there = lower_than_each(at(work.nodes.held_pods, node)[:, :, None], level)[..., 0] > 0
        fits = fits | (classes.preempts[of_lane] & there & has_room(free + lower, request))
    local = pods.pod_class - tables.lanes.class_start[:, None]
    helped = fits.gather(1, local.clamp(0, fits.shape[1] - 1))
    if called is None:
        helped = helped | (pods.mark == CALLED)
    else:
        helped = helped | called.gather(1, pods.pod_class)
    woken = helped & (pods.status == POOLED) & where[:, None]
    end = backoff_end(pods.queued, pods.attempts)
    at_once = end <= lanes.clock[:, None]
    otherwise = WOKEN if rules.options.skip_backoff_when_idle else BACKING_OFF
    pods.status.copy_(torch.where(woken, torch.where(at_once, ACTIVE, otherwise), pods.status))
    pods.when.copy_(torch.where(woken, end, pods.when))
    if called is None:
        reset(pods.mark, where, UNMARKED)
    eligible = woken if otherwise == WOKEN else woken & at_once
    lanes.eligible = lanes.eligible + eligible.sum(1)


def lower_than_each(held: Tensor, level: Tensor) -> Tensor:
    """[E, K, ..]: the sum of one node's column [E, L, ..] over the levels below each of some, [E, K]."""
    summed = torch.cumsum(held, 1) - held  # below each level
    wide = level[:, :, None].expand(-1, -1, held.shape[2])
    return summed.gather(1, wide)


def _arrive(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """One pod whose time has come; after the last of them, those whose back-off has ended."""
    lanes, pods, base = work.lanes, work.pods, tables.pods
    arriving = (lanes.phase == ARRIVE) & (lanes.arrival <= lanes.clock)
    pod = lanes.arrivals.clamp(max=pods.status.shape[1] - 1)
    if rules.redraw:
        # Draws of an episode: one for the first pod, two for each after it, its gap the second.
        drawn = next_below(ahead(lanes.drawn_from, (2 * pod).clamp(min=1)), base.count)
        gap = next_below(ahead(lanes.drawn_from, 2 * (pod + 1) + 1), base.gap_count)
        following = lanes.arrival + base.gap[base.gap_start + gap]
    else:
        drawn = torch.minimum(pod, base.count - 1)
        following = base.arrival[base.start + torch.minimum(pod + 1, base.count - 1)]
    c = base.pod_class[base.start + drawn]
    put(pods.pod_class, pod, c, arriving)
    put(pods.level, pod, tables.classes.level[c], arriving)
    put(pods.work, pod, base.work[base.start + drawn], arriving)
    put(pods.attempts, pod, torch.zeros_like(pod), arriving)
    expect(tables, work, c, arriving.long())
    enqueue(work, arriving, pod)
    lanes.arrivals = lanes.arrivals + arriving
    more = lanes.arrivals < base.episode
    lanes.arrival = torch.where(arriving, torch.where(more, following, torch.inf), lanes.arrival)

    done = (lanes.phase == ARRIVE) & (lanes.arrival > lanes.clock)
    if not rules.options.drop_failures or rules.may_delay:
        back = (pods.status == BACKING_OFF) & (pods.when <= lanes.clock[:, None]) & done[:, None]
        pods.status.masked_fill_(back, ACTIVE)
        lanes.eligible = lanes.eligible + back.sum(1)
    lanes.phase = lanes.phase.masked_fill(done, HAND_OUT)


def _hand_out(tables: Tables, rules: LaneRules, work: LaneState) -> None:
    """The first of the queue is to be decided about; woken pods come when nobody else stands there."""
    lanes, pods = work.lanes, work.pods
    handing = (lanes.phase == HAND_OUT) & (lanes.eligible > 0)
    active = pods.status == ACTIVE
    some = active.any(1, keepdim=True)
    urgency = -pods.level.double()
    among = torch.where(some, active, pods.status == WOKEN)
    keys = (
        torch.where(some, urgency, pods.when),
        torch.where(some, pods.queued, urgency),
        pods.ticket,
    )
    _, pod = first_by(among, keys)
    put(pods.status, pod, DECIDING, handing)
    lanes.pod = torch.where(handing, pod, lanes.pod)
    lanes.waiting = lanes.waiting - handing.long()
    lanes.eligible = lanes.eligible - handing.long()
    if rules.completion:
        _pay_for_time(tables, work, handing)
    lanes.phase = lanes.phase.masked_fill(handing, DECIDE)
