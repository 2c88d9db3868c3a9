"""One step of all lanes: place what was chosen, let time pass, look at what there is to choose.

As with pods a lane that has nothing to choose yet says so (`VmSeen.ready`) and goes on in the next step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.rollout import Told
from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.worlds.vms.state.servers import PER_UNIT
from proreus.worlds.vms.training.device.columns import DECIDE, VmState
from proreus.worlds.vms.training.device.events import advance, begin_runs, check_room, enter
from proreus.worlds.vms.training.device.tables import VmTables


class VmSeen(NamedTuple):
    """What each lane stands at."""

    rows: Tensor  # float32[E, 2N, 8]
    context: Tensor  # float32[E, 6]
    legal: Tensor  # bool[E, 2N]
    ready: Tensor  # bool[E] there is a choice; else nothing of this means anything


def move(tables: VmTables, work: VmState, action: Tensor) -> tuple[Tensor, Tensor]:
    """(flavour at hand [E], where it fits [E, 2N]) after an action of every lane that decides; HOLD: none."""
    places = 2 * tables.servers.capacity.shape[0]
    acting = (work.runs.phase == DECIDE) & (action != HOLD)
    enter(tables, work, acting, action.clamp(0, places - 1))
    advance(tables, work)
    begin_runs(tables, work)
    flavour = tables.traces.flavour[work.runs.machine]
    fits = fitting_places(tables, work, flavour)
    check_room(tables, work, fits.any(1))
    return flavour, fits


def step(tables: VmTables, state: VmState, seen: VmSeen, action: Tensor) -> tuple[VmSeen, Told]:
    """action: int64[E], server * 2 + NUMA node, or HOLD."""
    work, rules = state.working(), tables.rules
    now = _seen(tables, work, *move(tables, work, action))
    runs = work.runs
    came = now.ready & ~(seen.ready & (action == HOLD))
    ended = came & runs.ended
    reward = own = torch.where(came, runs.reward, 0.0)
    if rules.ending_cost > 0.0:
        # Whoever has placed as many machines as a run has at most did not end for want of room.
        full = ended & (runs.ended_placed != rules.room_limit)
        reward = -rules.ending_cost * full.double()
    told = Told(came, reward, ended, own)
    runs.reward = runs.reward.masked_fill(came, 0.0)
    runs.ended = runs.ended & ~came
    runs.empty = runs.empty.masked_fill(came, 0)
    state.commit(work)
    return now, told


def look(tables: VmTables, work: VmState) -> VmSeen:
    """List what can be done with the machines at hand."""
    flavour = tables.traces.flavour[work.runs.machine]
    return _seen(tables, work, flavour, fitting_places(tables, work, flavour))


def fitting_places(tables: VmTables, work: VmState, flavour: Tensor) -> Tensor:
    """bool[E, 2N]: the open places with room for a flavour, [E]."""
    free, need = work.clusters.free, tables.flavours.need[flavour]
    fits = (free >= need[:, None, None, :]).all(3)  # [E, N, 2]
    fits = fits & (fits.flip(2) | ~tables.flavours.double[flavour][:, None, None])
    servers = torch.arange(free.shape[1], device=free.device)
    open_ones = servers < work.runs.servers[:, None]
    return (fits & open_ones[:, :, None]).flatten(1)


def _seen(tables: VmTables, work: VmState, flavour: Tensor, fits: Tensor) -> VmSeen:
    """`encoding.rows` over tensors: everything in shares of one NUMA node."""
    scale, lanes = tables.servers.scale, flavour.shape[0]
    share = (work.clusters.free.double() * PER_UNIT).float() / scale  # [E, N, 2, 2]
    asked = tables.flavours.asked[flavour] / scale  # [E, 2, 2, 2] by choice, NUMA node, resource
    here = asked.diagonal(dim1=1, dim2=2).transpose(1, 2)  # [E, 2, 2] of the chosen node
    there = asked.flip(2).diagonal(dim1=1, dim2=2).transpose(1, 2)
    other = share.flip(2)
    rows = torch.cat([share, other, share - here[:, None], other - there[:, None]], 3)
    legal = fits & (work.runs.phase == DECIDE)[:, None]
    both = (asked[:, 0, 1] > 0).any(1, keepdim=True).float()
    room = fits.sum(1, keepdim=True).float() / fits.shape[1]
    context = torch.cat([asked[:, 0].sum(1), both, share.flatten(1, 2).mean(1), room], 1)
    return VmSeen(rows.view(lanes, -1, 8), context, legal, legal.any(1))
