"""One step of all lanes: carry out what was chosen, let time pass, look at what there is to choose.

Lanes are not in step with each other: one that has nothing to choose yet says so (`Seen.ready`) and goes on
in the next step. So a step is always the same operations over the same shapes: a graph can hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.gather import at, put
from proreus.learning.tensor_lanes.rollout import Told
from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.worlds.pods.training.device.columns import (
    BACKING_OFF,
    DECIDE,
    GONE,
    HAND_OUT,
    POOLED,
    LaneState,
)
from proreus.worlds.pods.training.device.events import (
    LaneRules,
    advance,
    backoff_end,
    begin_episodes,
    earn,
    stamp,
)
from proreus.worlds.pods.training.device.eviction import begin_eviction, evict
from proreus.worlds.pods.training.device.features import context_features, pair_features
from proreus.worlds.pods.training.device.filters import evictable_nodes, legal_nodes
from proreus.worlds.pods.training.device.placement import expect, place
from proreus.worlds.pods.training.device.tables import Tables


class Seen(NamedTuple):
    """What each lane stands at."""

    rows: Tensor  # float32[E, N, F], zero for nodes that cannot be chosen
    context: Tensor  # float32[E, G]
    legal: Tensor  # bool[E, N] nodes to choose from
    devices: Tensor  # int64[E, N] bit masks of the devices that the rows stand for
    preempts: Tensor  # bool[E] others must go first
    ready: Tensor  # bool[E] there is a choice; else nothing of this means anything


def step(
    tables: Tables, rules: LaneRules, state: LaneState, seen: Seen, action: Tensor, events: int
) -> tuple[Seen, Told]:
    """action: int64[E], a node, N to delay, N + 1 to reject, HOLD; who is not `ready` is not asked.

    `events`: how much may happen in a lane before the next look.
    """
    work = state.working()
    move(tables, rules, work, (seen, action), events)
    now = look(tables, rules, work)
    held = seen.ready & (action == HOLD)
    came = now.ready & ~held
    reward = torch.where(came, work.lanes.reward, 0.0)
    told = Told(came, reward, came & work.lanes.ended, reward)
    work.lanes.reward = work.lanes.reward.masked_fill(came, 0.0)
    work.lanes.ended = work.lanes.ended & ~came
    work.lanes.empty = work.lanes.empty.masked_fill(came, 0)
    state.commit(work)
    return now, told


def move(tables: Tables, rules: LaneRules, work: LaneState, chosen: tuple[Seen, Tensor], events: int) -> None:
    """Carry out what was chosen and let time pass."""
    _act(tables, rules, work, *chosen)
    begin_episodes(tables, rules, work)
    for _ in range(events):
        if tables.preemption:
            evict(tables, rules, work)
        advance(tables, rules, work)


def open_nodes(tables: Tables, work: LaneState) -> tuple[Tensor, Tensor, Tensor]:
    """(class of the pod at hand [E], nodes to choose from bool[E, N], whether others must go first [E])."""
    deciding = work.lanes.phase == DECIDE
    c = at(work.pods.pod_class, work.lanes.pod)
    legal = legal_nodes(tables, work, c) & deciding[:, None]
    preempts = torch.zeros_like(deciding)
    if tables.preemption:
        by_eviction = evictable_nodes(tables, work, c) & deciding[:, None]
        preempts = ~legal.any(1) & by_eviction.any(1)
        legal = torch.where(preempts[:, None], by_eviction, legal)
    return c, legal, preempts


def look(tables: Tables, rules: LaneRules, work: LaneState) -> Seen:
    """List what can be done with the pods at hand."""
    c, legal, preempts = open_nodes(tables, work)
    count = legal.sum(1)
    rows, devices, fragmented = pair_features(tables, work, c)
    context = context_features(tables, work, c, fragmented, (count, preempts))
    ready = (count > 0) & (count + int(rules.may_delay) + int(rules.may_reject) > 1)
    return Seen(torch.where(legal[:, :, None], rows, 0.0), context, legal, devices, preempts, ready)


def _act(tables: Tables, rules: LaneRules, work: LaneState, seen: Seen, action: Tensor) -> None:
    """Carry out the chosen actions; where there was no choice, the one thing that can be done."""
    lanes = work.lanes
    nodes = seen.legal.shape[1]
    places = torch.arange(nodes, device=action.device)
    only = torch.where(seen.legal, places, nodes).amin(1)  # a node, or delay where there is none
    action = torch.where(seen.ready, action, only)
    acting = (lanes.phase == DECIDE) & (action != HOLD)
    lanes.length = lanes.length + (acting & seen.ready)
    on_node = acting & (action < nodes)
    node = action.clamp(0, nodes - 1)
    placing = on_node & ~seen.preempts
    c = at(work.pods.pod_class, lanes.pod)
    place(tables, work, placing, node, at(seen.devices, node))
    if not rules.completion:
        earn(work, placing, tables.classes.measured[c] / tables.lanes.reward_scale)
    _delay(tables, rules, work, acting & (action == nodes), seen)
    rejecting = acting & (action == nodes + 1)
    put(work.pods.status, lanes.pod, GONE, rejecting)
    expect(tables, work, c, -rejecting.long())
    preempting = on_node & seen.preempts
    if tables.preemption:
        begin_eviction(tables, work, preempting, node)
    done = acting & ~preempting
    lanes.earned_until = torch.where(done, lanes.presence, lanes.earned_until)
    lanes.phase = lanes.phase.masked_fill(done, HAND_OUT)


def _delay(tables: Tables, rules: LaneRules, work: LaneState, where: Tensor, seen: Seen) -> None:
    """No legal node: into the pool until room comes free, or dropped. Else waiting was a choice: back off."""
    lanes, pods, options = work.lanes, work.pods, rules.options
    pod = lanes.pod
    attempts = at(pods.attempts, pod) + 1
    put(pods.attempts, pod, attempts, where)
    stamp(work, where, pod)
    fits = seen.legal.any(1) & ~seen.preempts
    tired = (attempts >= options.attempt_limit) & (options.attempt_limit > 0)
    status = torch.where(
        fits,
        torch.where(tired, GONE, BACKING_OFF),
        torch.full_like(pod, GONE if options.drop_failures else POOLED),
    )
    put(pods.status, pod, status, where)
    put(pods.when, pod, backoff_end(lanes.clock, attempts), where)
    gone = where & (status == GONE)
    expect(tables, work, at(pods.pod_class, pod), -gone.long())
    lanes.waiting = lanes.waiting + (where & ~gone)
