"""The kernels of the world `vms`: a run stops only where a machine needs a place and has a choice of some.

`begin` starts a lane at a machine of the trace, `put` carries out a choice and runs on to the next one. Where
machines wait, time is that of SPANE's environment: first come, first served; the machine at the head of the
queue is placed as soon as it fits anywhere, and stays its lifetime from then on. Elsewhere the events of the
trace happen in their order. Nothing here scans servers or machines: a deletion finds its place in `where`.
"""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.worlds.vms.model import ENDS, TURNS_AWAY, WAITS
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmLanes, VmWork
from proreus.worlds.vms.state.departures import first_to_leave, note_departure
from proreus.worlds.vms.state.servers import (
    NOWHERE,
    clear_servers,
    first_place,
    give_back,
    open_servers,
    take,
)

_NO_EVENT = -(2**31)

# A kernel either calls others or touches arrays, but for single numbers: an array held across a call is
# counted in and out, atomically, which costs more than the work itself.


@compiled
def begin(work: VmWork, lanes: VmLanes, lane: int, machine: int, limit: int) -> None:
    """Start a run at `machine` with an empty cluster; at most `limit` machines come up for a decision."""
    _wipe(work, lanes, lane, machine, limit)
    clear_servers(lanes.servers, lane)
    _open(work, lanes, lane, lanes.option[c.FIRST_SERVERS])
    if not _has_room(work, lanes, lane):
        if lanes.option[c.FULL] == TURNS_AWAY:
            _turn_away(lanes, lane)
            _next_in_trace(work, lanes, lane)
        else:
            # On an empty cluster: no one who waits would ever be served.
            _end(lanes, lane, c.NO_ROOM)


@compiled
def put(work: VmWork, lanes: VmLanes, lane: int, place: int) -> float:
    """Place the machine at hand, run on to the next choice; what the placement was worth.

    The caller has seen that the lane is at a choice and that the machine fits there.
    """
    take(lanes.servers, work.flavours, lane, place, at_hand(work, lanes, lane))
    worth = _enter(work, lanes, lane, place)
    if _should_grow(lanes, lane):
        _open(work, lanes, lane, lanes.option[c.GROWTH])
    if lanes.option[c.FULL] == WAITS:
        _push(work, lanes, lane)
        _next_in_queue(work, lanes, lane)
    else:
        _next_in_trace(work, lanes, lane)
    return worth


@compiled
def at_hand(work: VmWork, lanes: VmLanes, lane: int) -> int:
    """The flavour of the machine that needs a place."""
    return int(work.flavour[lanes.tally[lane, c.MACHINE]])


@compiled
def first_fit_length(work: VmWork, lanes: VmLanes, lane: int, machine: int) -> int:
    """How many machines first fit places from `machine` on before one does not fit: SPANE's measure of a run.

    As there, the look at the next machine comes before the departures that its arrival would bring.
    """
    begin(work, lanes, lane, machine, lanes.where.shape[1])
    placed = 0
    while lanes.tally[lane, c.STATUS] == c.DECIDING:
        flavour = at_hand(work, lanes, lane)
        place = first_place(lanes.servers, lane, flavour)
        placed += 1
        if machine + placed >= work.flavour.size:
            return placed
        take(lanes.servers, work.flavours, lane, place, flavour)
        full = lanes.servers.room[lane, work.flavour[machine + placed]] == 0
        give_back(lanes.servers, work.flavours, lane, place, flavour)
        if full:
            return placed
        put(work, lanes, lane, place)
    return placed


@compiled
def _next_in_trace(work: VmWork, lanes: VmLanes, lane: int) -> None:
    """Let the events of the trace happen until a machine comes that has a choice of places."""
    while not _at_limit(lanes, lane):
        event = _next_event(work, lanes, lane)
        while event < 0 and event != _NO_EVENT:
            _leave(work, lanes, lane, -1 - event)
            event = _next_event(work, lanes, lane)
        if event == _NO_EVENT:
            break
        if _has_room(work, lanes, lane):
            return
        if lanes.option[c.FULL] == ENDS:
            _end(lanes, lane, c.NO_ROOM)
            return
        _turn_away(lanes, lane)
    _end(lanes, lane, c.ALL_DONE)


@compiled
def _next_in_queue(work: VmWork, lanes: VmLanes, lane: int) -> None:
    """Let time pass until the next machine in line has arrived and fits somewhere."""
    arrival = _next_machine(work, lanes, lane)
    if math.isnan(arrival):
        _end(lanes, lane, c.ALL_DONE)
        return
    while _next_departure(lanes, lane) <= arrival:
        _move_clock(lanes, lane, _next_departure(lanes, lane))
        _leave(work, lanes, lane, _pop(lanes, lane))
    if _has_room(work, lanes, lane):
        _move_clock(lanes, lane, arrival)
        return
    while not _has_room(work, lanes, lane):
        moment = _next_departure(lanes, lane)
        if math.isinf(moment):
            _end(lanes, lane, c.NO_ROOM)
            return
        _move_clock(lanes, lane, moment)
        # All that leave at that moment are gone before anyone is placed.
        while _next_departure(lanes, lane) == moment:
            _leave(work, lanes, lane, _pop(lanes, lane))


@compiled
def _leave(work: VmWork, lanes: VmLanes, lane: int, machine: int) -> None:
    """A machine is deleted; one that was never placed leaves nothing behind."""
    place = _exit(work, lanes, lane, machine)
    if place != NOWHERE:
        give_back(lanes.servers, work.flavours, lane, place, work.flavour[machine])


@compiled
def _open(work: VmWork, lanes: VmLanes, lane: int, more: int) -> None:
    """Put so many more servers to use, or as many as are left."""
    first = lanes.tally[lane, c.SERVERS]
    _count_servers(lanes, lane, more)
    open_servers(lanes.servers, work.flavours, lane, first, lanes.tally[lane, c.SERVERS])


@compiled
def _wipe(work: VmWork, lanes: VmLanes, lane: int, machine: int, limit: int) -> None:
    """Forget the run before; only what it has written is wiped."""
    tally, figure, where = lanes.tally, lanes.figure, lanes.where
    for known in range(min(tally[lane, c.MACHINE] - tally[lane, c.FIRST] + 1, where.shape[1])):
        where[lane, known] = NOWHERE
    for place in range(tally.shape[1]):
        tally[lane, place] = 0
    for place in range(figure.shape[1]):
        figure[lane, place] = 0.0
    tally[lane, c.FIRST] = machine
    tally[lane, c.MACHINE] = machine
    tally[lane, c.EVENT] = work.created[machine] + 1
    tally[lane, c.LIMIT] = min(limit, where.shape[1])
    figure[lane, c.NOW] = work.arrival[machine]
    figure[lane, c.BEGAN] = work.arrival[machine]


@compiled
def _enter(work: VmWork, lanes: VmLanes, lane: int, place: int) -> float:
    """Write down that the machine at hand has moved in; what that is worth."""
    tally, figure, flavours = lanes.tally, lanes.figure, work.flavours
    machine = tally[lane, c.MACHINE]
    flavour = work.flavour[machine]
    nodes = 1 + flavours.double[flavour]
    lanes.where[lane, machine - tally[lane, c.FIRST]] = place
    figure[lane, c.CPU_USED] += nodes * flavours.need[0, flavour]
    figure[lane, c.MEM_USED] += nodes * flavours.need[1, flavour]
    tally[lane, c.PLACED] += 1
    tally[lane, c.RUNNING] += 1
    wait = figure[lane, c.NOW] - work.arrival[machine]
    if wait > 0:
        tally[lane, c.WAITED] += 1
        figure[lane, c.WAIT] += wait
    reward = lanes.option[c.REWARD]
    if reward == c.BY_WAIT:
        return -math.log1p(wait)
    if reward == c.BY_CPU:
        return nodes * flavours.need[0, flavour] / lanes.servers.capacity[place // 2, 0, 0]
    return 1.0


@compiled
def _exit(work: VmWork, lanes: VmLanes, lane: int, machine: int) -> int:
    """Write down that a machine has left; the place that it had, or NOWHERE."""
    tally, figure, flavours, where = lanes.tally, lanes.figure, work.flavours, lanes.where
    known = machine - tally[lane, c.FIRST]
    place = where[lane, known]
    if place != NOWHERE:
        flavour = work.flavour[machine]
        nodes = 1 + flavours.double[flavour]
        where[lane, known] = NOWHERE
        figure[lane, c.CPU_USED] -= nodes * flavours.need[0, flavour]
        figure[lane, c.MEM_USED] -= nodes * flavours.need[1, flavour]
        tally[lane, c.RUNNING] -= 1
    return place


@compiled
def _has_room(work: VmWork, lanes: VmLanes, lane: int) -> bool:
    return lanes.servers.room[lane, work.flavour[lanes.tally[lane, c.MACHINE]]] > 0


@compiled
def _at_limit(lanes: VmLanes, lane: int) -> bool:
    return lanes.tally[lane, c.PLACED] + lanes.tally[lane, c.REJECTED] >= lanes.tally[lane, c.LIMIT]


@compiled
def _end(lanes: VmLanes, lane: int, status: int) -> None:
    lanes.tally[lane, c.STATUS] = status


@compiled
def _turn_away(lanes: VmLanes, lane: int) -> None:
    lanes.tally[lane, c.REJECTED] += 1


@compiled
def _next_event(work: VmWork, lanes: VmLanes, lane: int) -> int:
    """Move on to the next event that concerns the run: a machine that comes, or -1 - one that leaves."""
    tally, events, arrival = lanes.tally, work.events, work.arrival
    first, releases = tally[lane, c.FIRST], lanes.option[c.RELEASE]
    row = tally[lane, c.EVENT]
    next_event, moment = _NO_EVENT, lanes.figure[lane, c.NOW]
    while row < events.size and next_event == _NO_EVENT:
        event = events[row]
        row += 1
        if event >= 0:
            next_event, moment = event, arrival[event]
            tally[lane, c.MACHINE] = event
        elif releases and -1 - event >= first:
            next_event, moment = event, arrival[-1 - event] + work.lifetime[-1 - event]
    tally[lane, c.EVENT] = row
    _move_clock(lanes, lane, moment)
    return next_event


@compiled
def _next_machine(work: VmWork, lanes: VmLanes, lane: int) -> float:
    """Turn to the next machine in line; when it arrives, or NaN where the run is over."""
    tally = lanes.tally
    if tally[lane, c.PLACED] >= tally[lane, c.LIMIT] or tally[lane, c.MACHINE] + 1 >= work.flavour.size:
        return math.nan
    tally[lane, c.MACHINE] += 1
    return work.arrival[tally[lane, c.MACHINE]]


@compiled
def _next_departure(lanes: VmLanes, lane: int) -> float:
    return lanes.leaving[lane, 0] if lanes.tally[lane, c.QUEUED] > 0 else math.inf


@compiled
def _move_clock(lanes: VmLanes, lane: int, moment: float) -> None:
    """Advance to `moment`, never back, and account for what was in use meanwhile."""
    figure = lanes.figure
    passed = moment - figure[lane, c.NOW]
    if passed > 0:
        figure[lane, c.CPU_SECONDS] += passed * figure[lane, c.CPU_USED]
        figure[lane, c.MEM_SECONDS] += passed * figure[lane, c.MEM_USED]
        figure[lane, c.CPU_OPEN_SECONDS] += passed * figure[lane, c.CPU_OPEN]
        figure[lane, c.MEM_OPEN_SECONDS] += passed * figure[lane, c.MEM_OPEN]
        figure[lane, c.NOW] = moment


@compiled
def _should_grow(lanes: VmLanes, lane: int) -> bool:
    """Whether more than the threshold of cores or of memory is in use, in a cluster that grows."""
    figure = lanes.figure
    if lanes.option[c.GROWTH] == 0:
        return False
    threshold = lanes.threshold[0]
    return (
        figure[lane, c.CPU_USED] > threshold * figure[lane, c.CPU_OPEN]
        or figure[lane, c.MEM_USED] > threshold * figure[lane, c.MEM_OPEN]
    )


@compiled
def _count_servers(lanes: VmLanes, lane: int, more: int) -> None:
    """Write down that so many more servers are open, or as many as are left."""
    tally, figure, capacity = lanes.tally, lanes.figure, lanes.servers.capacity
    first = tally[lane, c.SERVERS]
    last = min(first + more, capacity.shape[0])
    for server in range(first, last):
        for numa in range(2):
            figure[lane, c.CPU_OPEN] += capacity[server, numa, 0]
            figure[lane, c.MEM_OPEN] += capacity[server, numa, 1]
    tally[lane, c.SERVERS] = last


@compiled
def _push(work: VmWork, lanes: VmLanes, lane: int) -> None:
    """Add the machine at hand to those that will leave."""
    tally = lanes.tally
    machine = tally[lane, c.MACHINE]
    moment = lanes.figure[lane, c.NOW] + work.lifetime[machine]
    note_departure(lanes.leaving, lanes.leaver, lane, tally[lane, c.QUEUED], (moment, machine))
    tally[lane, c.QUEUED] += 1


@compiled
def _pop(lanes: VmLanes, lane: int) -> int:
    """Take out the machine that leaves first."""
    first = first_to_leave(lanes.leaving, lanes.leaver, lane, lanes.tally[lane, c.QUEUED])
    lanes.tally[lane, c.QUEUED] -= 1
    return first
