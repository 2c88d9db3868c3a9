"""Time in the runs: `simulation.kernel` over tensors, one machine of each lane at once.

Deletions between two creations only add whole numbers to what is free: they happen together, up to `_WINDOW`
of them in a step. Where machines wait, all that leave before the next one comes go together, too; after that
one moment a step, until the machine at the head of the queue fits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.gather import add, put, reset
from proreus.learning.tensor_lanes.splitmix import ahead, next_below
from proreus.worlds.vms.model import ENDS, TURNS_AWAY
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.state.servers import NOWHERE
from proreus.worlds.vms.training.device.columns import (
    CHECK,
    DECIDE,
    IDLE,
    NEW_RUN,
    NEXT,
    WAIT,
    VmState,
)
from proreus.worlds.vms.training.device.tables import VmTables

_WINDOW = 8
"""Deletions of a step: of a thousand machines of a generated trace six come after more than these."""


def begin_runs(tables: VmTables, work: VmState) -> None:
    """Lanes whose run is over, and new ones, at the first machine of the next with an empty cluster."""
    runs, starts, rules = work.runs, tables.starts, tables.rules
    new = runs.phase == NEW_RUN
    if starts.span:
        runs.rng = torch.where(new, ahead(runs.rng, 1), runs.rng)
        place = next_below(runs.rng, torch.full_like(runs.rng, starts.span))
        machine = starts.first + place
        limit = starts.length[place] if starts.length.shape[0] else torch.full_like(place, starts.limit)
    else:
        # The lanes that are through take the next runs of the list, in their order.
        taken = work.listed.next + torch.cumsum(new, 0) - 1
        work.listed.next.add_(new.sum())
        left = taken < starts.listed.shape[0]
        runs.phase = runs.phase.masked_fill(new & ~left, IDLE)
        new = new & left
        run = torch.where(left, taken, 0)
        runs.run = torch.where(new, run, runs.run)
        machine, limit = starts.listed[run], starts.limits[run]
    servers = torch.arange(tables.servers.capacity.shape[0], device=new.device)
    first = torch.where((servers < rules.first_servers)[:, None, None], tables.servers.capacity, 0)
    reset(work.clusters.free, new, first)
    if rules.waits:
        reset(work.clusters.leaving, new, torch.inf)
    fresh = {
        "first": machine,
        "machine": machine,
        "event": tables.traces.created[machine] + 1,
        "limit": limit.clamp(max=rules.window),
        "servers": torch.full_like(machine, rules.first_servers),
        "clock": tables.traces.arrival[machine],
        "phase": torch.full_like(machine, CHECK),
    }
    for name, column in fresh.items():
        setattr(runs, name, torch.where(new, column, getattr(runs, name)))
    for name in ("placed", "rejected", "wait", "total"):
        column = getattr(runs, name)
        setattr(runs, name, column.masked_fill(new, 0))
    runs.used = runs.used.masked_fill(new[:, None], 0.0)


def enter(tables: VmTables, work: VmState, where: Tensor, place: Tensor) -> None:
    """The machine at hand moves in, in the lanes where it is said; place: int64[E]."""
    runs, rules, clusters = work.runs, tables.rules, work.clusters
    flavour = tables.traces.flavour[runs.machine]
    need = tables.flavours.need[flavour]
    used, both = used_nodes(tables, flavour, place)
    taken = (used[:, :, None] & where[:, None, None]) * need[:, None, :]
    add(clusters.free, place // 2, -taken)
    amount = torch.where(where[:, None], (1 + both.long())[:, None] * need.double(), 0.0)
    runs.used = runs.used + amount
    runs.placed = runs.placed + where
    waited = torch.where(where, (runs.clock - tables.traces.arrival[runs.machine]).clamp(min=0.0), 0.0)
    runs.wait = runs.wait + waited
    if rules.reward == c.BY_WAIT:
        worth = -torch.log1p(waited)
    elif rules.reward == c.BY_CPU:
        worth = amount[:, 0] / tables.servers.capacity[place // 2, 0, 0].double()
    else:
        worth = where.double()
    runs.reward = runs.reward + torch.where(where, worth, 0.0)
    runs.total = runs.total + torch.where(where, worth, 0.0)
    if rules.growth:
        _grow(tables, work, where)
    if rules.waits:
        slots = torch.arange(rules.alive, device=place.device)
        slot = torch.where(torch.isinf(clusters.leaving), slots, rules.alive).amin(1)
        slot = slot.clamp(max=rules.alive - 1)
        put(clusters.leaving, slot, runs.clock + tables.traces.lifetime[runs.machine], where)
        put(clusters.place, slot, place, where)
        put(clusters.flavour, slot, flavour, where)
    else:
        put(clusters.where, runs.machine - runs.first, place, where)
    runs.phase = runs.phase.masked_fill(where, NEXT)


def used_nodes(tables: VmTables, flavour: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """(bool[.., 2], bool[..]): the NUMA nodes that a machine takes at a place, and whether it takes both."""
    both = tables.flavours.double[flavour]
    numa = torch.arange(2, device=place.device) == (place % 2)[..., None]
    return numa | both[..., None], both


def _grow(tables: VmTables, work: VmState, where: Tensor) -> None:
    """More servers, in a cluster of which more than the threshold is in use."""
    runs, rules, capacity = work.runs, tables.rules, tables.servers.capacity
    full = (runs.used > rules.threshold * tables.servers.opened[runs.servers]).any(1) & where
    before = runs.servers
    more = (before + rules.growth).clamp(max=capacity.shape[0])
    runs.servers = torch.where(full, more, before)
    places = torch.arange(capacity.shape[0], device=where.device)
    fresh = (places >= before[:, None]) & (places < runs.servers[:, None])
    free = work.clusters.free
    free.copy_(torch.where(fresh[:, :, None, None], capacity, free))


def advance(tables: VmTables, work: VmState) -> None:
    """On to the next machine that comes, or to the next moment at which one leaves."""
    if tables.rules.waits:
        _next_in_queue(tables, work)
    else:
        _next_in_trace(tables, work)


def _next_in_trace(tables: VmTables, work: VmState) -> None:
    runs, rules, traces, clusters = work.runs, tables.rules, tables.traces, work.clusters
    going = runs.phase == NEXT
    done = going & (runs.placed + runs.rejected >= runs.limit)
    going = going & ~done
    end = traces.event_end[traces.trace[runs.machine]]
    rows = runs.event[:, None] + torch.arange(_WINDOW, device=going.device)
    inside = rows < end[:, None]
    rows = rows.clamp(max=traces.events.shape[0] - 1)
    event = traces.events[rows]
    leading = torch.cumprod((event < 0) & inside, 1).bool() & going[:, None]
    count = leading.sum(1)
    if rules.release:
        who = -1 - event
        own = leading & (who >= runs.first[:, None]) & (who <= runs.machine[:, None])
        moments = torch.where(own, traces.moment[rows], -torch.inf).amax(1)
        runs.clock = torch.maximum(runs.clock, moments)
        known = (who - runs.first[:, None]).clamp(0, clusters.where.shape[1] - 1)
        place = clusters.where.gather(1, known).long()
        there = own & (place != NOWHERE)
        _give_back(tables, work, there, place.clamp(min=0), traces.flavour[who.clamp(min=0)])
    row = runs.event + count
    over = going & (row >= end)
    came = going & ~over & (count < _WINDOW)
    machine = traces.events[row.clamp(max=traces.events.shape[0] - 1)]
    runs.machine = torch.where(came, machine, runs.machine)
    runs.event = torch.where(going, row + came, runs.event)
    arrival = traces.arrival[runs.machine]
    runs.clock = torch.where(came, torch.maximum(runs.clock, arrival), runs.clock)
    runs.phase = runs.phase.masked_fill(came, CHECK)
    end_runs(tables, work, done | over)


def _next_in_queue(tables: VmTables, work: VmState) -> None:
    runs, traces, clusters = work.runs, tables.traces, work.clusters
    going, waiting = runs.phase == NEXT, runs.phase == WAIT
    following = runs.machine + 1
    end = traces.machine_end[traces.trace[runs.machine]]
    over = going & ((runs.placed >= runs.limit) | (following >= end))
    came = going & ~over
    runs.machine = torch.where(came, following, runs.machine)
    arrival = traces.arrival[runs.machine]
    moment = clusters.leaving.amin(1)
    stuck = waiting & torch.isinf(moment)
    until = torch.where(came, arrival, torch.where(waiting, moment, -torch.inf))
    leaves = (clusters.leaving <= until[:, None]) & torch.isfinite(clusters.leaving)
    _give_back(tables, work, leaves, clusters.place, clusters.flavour)
    clusters.leaving.copy_(torch.where(leaves, torch.inf, clusters.leaving))
    runs.clock = torch.where(came | waiting & ~stuck, torch.maximum(runs.clock, until), runs.clock)
    runs.phase = runs.phase.masked_fill(came | waiting & ~stuck, CHECK)
    end_runs(tables, work, over | stuck)


def _give_back(tables: VmTables, work: VmState, leaves: Tensor, place: Tensor, flavour: Tensor) -> None:
    """Machines leave their places; [E, K] each."""
    lanes, free = leaves.shape[0], work.clusters.free
    used, both = used_nodes(tables, flavour, place)
    need = torch.where(leaves[:, :, None], tables.flavours.need[flavour], 0)
    amounts = used[..., None] * need[:, :, None, :]  # [E, K, 2, 2]
    cells = torch.arange(4, device=place.device) + 4 * (place // 2)[..., None]
    free.view(lanes, -1).scatter_add_(1, cells.view(lanes, -1), amounts.view(lanes, -1))
    work.runs.used = work.runs.used - ((1 + both.long())[:, :, None] * need).double().sum(1)


def check_room(tables: VmTables, work: VmState, room: Tensor) -> None:
    """A machine that has come is to be decided about where it fits anywhere; room: bool[E]."""
    runs, rules = work.runs, tables.rules
    checked = runs.phase == CHECK
    runs.phase = runs.phase.masked_fill(checked & room, DECIDE)
    full = checked & ~room
    if rules.full == ENDS:
        end_runs(tables, work, full)
    elif rules.full == TURNS_AWAY:
        runs.rejected = runs.rejected + full
        put(work.clusters.where, runs.machine - runs.first, NOWHERE, full)
        runs.phase = runs.phase.masked_fill(full, NEXT)
    else:
        runs.phase = runs.phase.masked_fill(full, WAIT)


def end_runs(tables: VmTables, work: VmState, over: Tensor) -> None:
    """Write down what the runs of these lanes came to; what is between an end and a choice is nobody's."""
    runs = work.runs
    told = over & ~runs.ended
    runs.ended_placed = torch.where(told, runs.placed, runs.ended_placed)
    runs.ended_wait = torch.where(told, runs.wait, runs.ended_wait)
    runs.ended_runs = runs.ended_runs + told
    runs.ended_total = runs.ended_total + torch.where(told, runs.total, 0.0)
    runs.ended = runs.ended | over
    runs.empty = runs.empty + over
    if not tables.starts.span:
        nobody = tables.starts.listed.shape[0]
        outcome = torch.stack([runs.placed.double(), runs.rejected.double(), runs.wait], 1)
        work.listed.outcome.index_put_((torch.where(over, runs.run, nobody),), outcome)
    runs.phase = runs.phase.masked_fill(over, NEW_RUN)
