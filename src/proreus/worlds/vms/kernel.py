"""The kernels of the world `vms`: a run stops only where a machine needs a place and has a choice of some.

`begin` starts a lane at a machine of the trace, `put` carries out a choice and runs on to the next one. Where
machines wait, time is that of SPANE's environment: first come, first served; the machine at the head of the queue
is placed as soon as it fits anywhere, and stays its lifetime from then on. Elsewhere the events of the trace
happen in their order. Nothing here scans servers or machines: a deletion finds its place in `where`.
"""

from __future__ import annotations

import math

from proreus.cluster.compiled import compiled
from proreus.cluster.servers import (
    NOWHERE,
    clear_servers,
    first_place,
    give_back,
    open_servers,
    take,
)
from proreus.worlds.vms.columns import (
    ALL_DONE,
    BEGAN,
    BY_CPU,
    BY_WAIT,
    CPU_OPEN,
    CPU_OPEN_SECONDS,
    CPU_SECONDS,
    CPU_USED,
    DECIDING,
    ENDS,
    EVENT,
    FIRST,
    FIRST_SERVERS,
    FULL,
    GROWTH,
    LIMIT,
    LOG_WAIT,
    MACHINE,
    MEM_OPEN,
    MEM_OPEN_SECONDS,
    MEM_SECONDS,
    MEM_USED,
    MOST_RUNNING,
    NO_ROOM,
    NOW,
    PLACED,
    REJECTED,
    RELEASE,
    REWARD,
    RUNNING,
    SERVERS,
    STATUS,
    WAIT,
    WAITED,
    WAITS,
    Lanes,
    Work,
)


@compiled
def begin(work: Work, lanes: Lanes, lane: int, machine: int, limit: int) -> None:
    """Start a run at `machine` with an empty cluster; at most `limit` machines come up for a decision."""
    count, figure = lanes.count[lane], lanes.figure[lane]
    # Only what the run before has written is wiped.
    lanes.where[lane, : count[MACHINE] - count[FIRST] + 1] = NOWHERE
    count[:] = 0
    figure[:] = 0.0
    count[FIRST] = machine
    count[MACHINE] = machine
    count[EVENT] = work.created[machine] + 1
    count[LIMIT] = min(limit, lanes.where.shape[1])
    figure[NOW] = work.arrival[machine]
    figure[BEGAN] = figure[NOW]
    clear_servers(lanes.servers, lane)
    _open(work, lanes, lane, lanes.option[FIRST_SERVERS])
    if lanes.servers.room[lane, work.flavour[machine]] == 0:
        # On an empty cluster: no one who waits would ever be served.
        if lanes.option[FULL] == ENDS or lanes.option[FULL] == WAITS:
            count[STATUS] = NO_ROOM
        else:
            _turn_away(work, lanes, lane)


@compiled
def put(work: Work, lanes: Lanes, lane: int, place: int) -> float:
    """Place the machine at hand, run on to the next choice; what the placement was worth.

    The caller has seen that the lane is at a choice and that the machine fits there.
    """
    count, figure = lanes.count[lane], lanes.figure[lane]
    machine = count[MACHINE]
    flavour = work.flavour[machine]
    take(lanes.servers, work.flavours, lane, place, flavour)
    lanes.where[lane, machine - count[FIRST]] = place
    _use(work, lanes, lane, flavour, 1.0)
    count[PLACED] += 1
    count[RUNNING] += 1
    count[MOST_RUNNING] = max(count[MOST_RUNNING], count[RUNNING])
    wait = figure[NOW] - work.arrival[machine]
    if wait > 0:
        count[WAITED] += 1
    figure[WAIT] += wait
    figure[LOG_WAIT] += math.log1p(wait)
    if lanes.option[GROWTH] > 0:
        _grow(work, lanes, lane)
    if lanes.option[FULL] == WAITS:
        _push(lanes, lane, figure[NOW] + work.lifetime[machine], machine)
        _next_in_queue(work, lanes, lane)
    else:
        _next_in_trace(work, lanes, lane)
    reward = lanes.option[REWARD]
    if reward == BY_WAIT:
        return -math.log1p(wait)
    if reward == BY_CPU:
        halves = 2 if work.flavours.double[flavour] else 1
        return halves * work.flavours.need[flavour, 0] / lanes.servers.capacity[place // 2, 0, 0]
    return 1.0


@compiled
def first_fit_length(work: Work, lanes: Lanes, lane: int, machine: int) -> int:
    """How many machines first fit places from `machine` on before one does not fit: SPANE's measure of a run.

    As there, the look at the next machine comes before the departures that its arrival would bring.
    """
    begin(work, lanes, lane, machine, lanes.where.shape[1])
    count = lanes.count[lane]
    while count[STATUS] == DECIDING:
        flavour = work.flavour[count[MACHINE]]
        place = first_place(lanes.servers, lane, flavour)
        following = count[MACHINE] + 1
        if following >= work.flavour.size:
            return following - machine
        if not _fits_after(work, lanes, lane, place, flavour, work.flavour[following]):
            return following - machine
        put(work, lanes, lane, place)
    return int(count[PLACED])


@compiled
def _fits_after(work: Work, lanes: Lanes, lane: int, place: int, flavour: int, following: int) -> bool:
    """Whether the flavour `following` fits anywhere once `flavour` has taken its place."""
    take(lanes.servers, work.flavours, lane, place, flavour)
    fits = lanes.servers.room[lane, following] > 0
    give_back(lanes.servers, work.flavours, lane, place, flavour)
    return fits


@compiled
def _next_in_trace(work: Work, lanes: Lanes, lane: int) -> None:
    """Let the events of the trace happen until a machine comes that has a choice of places."""
    count = lanes.count[lane]
    while True:
        if count[PLACED] + count[REJECTED] >= count[LIMIT]:
            count[STATUS] = ALL_DONE
            return
        while count[EVENT] < work.events.size and work.events[count[EVENT]] < 0:
            machine = -1 - work.events[count[EVENT]]
            count[EVENT] += 1
            if machine >= count[FIRST] and lanes.option[RELEASE]:
                _move_clock(lanes, lane, work.arrival[machine] + work.lifetime[machine])
                _leave(work, lanes, lane, machine)
        if count[EVENT] == work.events.size:
            count[STATUS] = ALL_DONE
            return
        count[MACHINE] = work.events[count[EVENT]]
        count[EVENT] += 1
        _move_clock(lanes, lane, work.arrival[count[MACHINE]])
        if lanes.servers.room[lane, work.flavour[count[MACHINE]]] > 0:
            return
        if lanes.option[FULL] == ENDS:
            count[STATUS] = NO_ROOM
            return
        count[REJECTED] += 1


@compiled
def _turn_away(work: Work, lanes: Lanes, lane: int) -> None:
    lanes.count[lane, REJECTED] += 1
    _next_in_trace(work, lanes, lane)


@compiled
def _next_in_queue(work: Work, lanes: Lanes, lane: int) -> None:
    """Let time pass until the next machine in line has arrived and fits somewhere."""
    count, figure = lanes.count[lane], lanes.figure[lane]
    if count[PLACED] >= count[LIMIT] or count[MACHINE] + 1 >= work.flavour.size:
        count[STATUS] = ALL_DONE
        return
    count[MACHINE] += 1
    arrival = work.arrival[count[MACHINE]]
    while count[RUNNING] > 0 and lanes.leaving[lane, 0] <= arrival:
        _move_clock(lanes, lane, lanes.leaving[lane, 0])
        _leave(work, lanes, lane, _pop(lanes, lane))
    room, flavour = lanes.servers.room[lane], work.flavour[count[MACHINE]]
    if room[flavour] > 0:
        _move_clock(lanes, lane, max(figure[NOW], arrival))
        return
    while room[flavour] == 0:
        if count[RUNNING] == 0 or math.isinf(lanes.leaving[lane, 0]):
            count[STATUS] = NO_ROOM
            return
        _move_clock(lanes, lane, lanes.leaving[lane, 0])
        # All that leave at that moment are gone before anyone is placed.
        while count[RUNNING] > 0 and lanes.leaving[lane, 0] == figure[NOW]:
            _leave(work, lanes, lane, _pop(lanes, lane))


@compiled
def _leave(work: Work, lanes: Lanes, lane: int, machine: int) -> None:
    """A machine is deleted; one that was never placed leaves nothing behind."""
    count = lanes.count[lane]
    place = lanes.where[lane, machine - count[FIRST]]
    if place == NOWHERE:
        return
    lanes.where[lane, machine - count[FIRST]] = NOWHERE
    flavour = work.flavour[machine]
    give_back(lanes.servers, work.flavours, lane, place, flavour)
    _use(work, lanes, lane, flavour, -1.0)
    if lanes.option[FULL] != WAITS:
        count[RUNNING] -= 1


@compiled
def _use(work: Work, lanes: Lanes, lane: int, flavour: int, sign: float) -> None:
    figure = lanes.figure[lane]
    factor = 2.0 * sign if work.flavours.double[flavour] else sign
    figure[CPU_USED] += factor * work.flavours.need[flavour, 0]
    figure[MEM_USED] += factor * work.flavours.need[flavour, 1]


@compiled
def _move_clock(lanes: Lanes, lane: int, moment: float) -> None:
    """Advance to `moment` and account for what was in use meanwhile."""
    figure = lanes.figure[lane]
    passed = moment - figure[NOW]
    if passed > 0:
        figure[CPU_SECONDS] += passed * figure[CPU_USED]
        figure[MEM_SECONDS] += passed * figure[MEM_USED]
        figure[CPU_OPEN_SECONDS] += passed * figure[CPU_OPEN]
        figure[MEM_OPEN_SECONDS] += passed * figure[MEM_OPEN]
        figure[NOW] = moment


@compiled
def _grow(work: Work, lanes: Lanes, lane: int) -> None:
    """Add servers, where there are some left, once more than the threshold of cores or of memory is in use."""
    figure = lanes.figure[lane]
    use = max(figure[CPU_USED] / figure[CPU_OPEN], figure[MEM_USED] / figure[MEM_OPEN])
    if use > lanes.threshold[0]:
        _open(work, lanes, lane, lanes.option[GROWTH])


@compiled
def _open(work: Work, lanes: Lanes, lane: int, more: int) -> None:
    """Put so many more servers to use, or as many as are left."""
    count, figure, capacity = lanes.count[lane], lanes.figure[lane], lanes.servers.capacity
    first = count[SERVERS]
    last = min(first + more, capacity.shape[0])
    for server in range(first, last):
        for numa in range(2):
            figure[CPU_OPEN] += capacity[server, numa, 0]
            figure[MEM_OPEN] += capacity[server, numa, 1]
    open_servers(lanes.servers, work.flavours, lane, first, last)
    count[SERVERS] = last


@compiled
def _push(lanes: Lanes, lane: int, moment: float, machine: int) -> None:
    """Add a machine to the heap of those that leave; its size is the number that runs, already counted."""
    leaving, leaver = lanes.leaving[lane], lanes.leaver[lane]
    at = lanes.count[lane, RUNNING] - 1
    while at > 0:
        above = (at - 1) // 2
        if leaving[above] <= moment:
            break
        leaving[at], leaver[at] = leaving[above], leaver[above]
        at = above
    leaving[at], leaver[at] = moment, machine


@compiled
def _pop(lanes: Lanes, lane: int) -> int:
    """Take out the machine that leaves first; who comes first among equals changes nothing."""
    leaving, leaver = lanes.leaving[lane], lanes.leaver[lane]
    first = leaver[0]
    lanes.count[lane, RUNNING] -= 1
    size = lanes.count[lane, RUNNING]
    moment, machine = leaving[size], leaver[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and leaving[below + 1] < leaving[below]:
            below += 1
        if leaving[below] >= moment:
            break
        leaving[at], leaver[at] = leaving[below], leaver[below]
        at = below
    leaving[at], leaver[at] = moment, machine
    return int(first)
