"""What happens to requests: they run, wait in a queue or for a start, end or are dropped.

A request that starts on a node adds what it uses to what others use there. Its time is stretched by the
scarcest resource at that moment, and stays so:

    seconds x max(1, CPU used / CPU, network used / network, disk used / disk)
"""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.functions.state.columns import (
    BUSY_CPU,
    CLIP,
    COLD,
    CPU,
    CPU_USE,
    DISK,
    DONE,
    DROPPED,
    ENDED,
    EPISODE,
    FIRST_HELD,
    FUNCTION,
    GIVEN_UP,
    HEAD,
    HEAPED,
    HELD,
    HELD_BACK,
    HIGH,
    IN_TIME,
    LAST_ENDED,
    LAST_HELD,
    LAST_RFRT,
    LOST,
    LOW,
    MET,
    NET,
    NOBODY,
    NODE,
    NOW,
    OBJECTIVE,
    OPEN,
    QUEUED,
    RFRT,
    RUNNING,
    RUNS,
    SERVED,
    SHARE,
    TAIL,
    TAKEN,
    WAITING,
    WAITS_FOR_ROOM,
    Runs,
    Work,
)


@compiled
def run_on(work: Work, runs: Runs, lane: int, request: int, one: int) -> None:
    """A request begins to run on an instance that is ready."""
    episode, now = runs.tally[lane, EPISODE], runs.figure[lane, NOW]
    row = work.first_function[episode] + runs.instance[lane, one, FUNCTION]
    node = runs.instance[lane, one, NODE]
    runs.node[lane, node, BUSY_CPU] += work.need[row, CPU_USE]
    runs.node[lane, node, NET] += work.need[row, NET]
    runs.node[lane, node, DISK] += work.need[row, DISK]
    stretch = 1.0
    stretch = max(stretch, runs.node[lane, node, BUSY_CPU] / work.capacity[node, CPU])
    stretch = max(stretch, runs.node[lane, node, NET] / work.capacity[node, NET])
    stretch = max(stretch, runs.node[lane, node, DISK] / work.capacity[node, DISK])
    runs.status[lane, request] = RUNS
    if runs.began.shape[1]:
        runs.began[lane, request] = now
        runs.server[lane, request] = node
    _push(runs, lane, now + work.seconds[work.first[episode] + request] * stretch, request, one)


@compiled
def take_slot(runs: Runs, lane: int, request: int, one: int) -> None:
    """A request has a slot of an instance; it is not said yet whether it runs there."""
    function = runs.instance[lane, one, FUNCTION]
    runs.instance[lane, one, TAKEN] += 1
    runs.of[lane, function, OPEN] -= 1
    runs.of[lane, function, RUNNING] += 1


@compiled
def hold(runs: Runs, lane: int, request: int, one: int) -> None:
    """A request waits for its instance to start."""
    runs.status[lane, request] = HELD_BACK
    runs.tally[lane, HELD] += 1
    runs.tally[lane, COLD] += 1
    runs.link[lane, request] = NOBODY
    if runs.instance[lane, one, FIRST_HELD] == NOBODY:
        runs.instance[lane, one, FIRST_HELD] = request
    else:
        runs.link[lane, runs.instance[lane, one, LAST_HELD]] = request
    runs.instance[lane, one, LAST_HELD] = request


@compiled
def queue_up(runs: Runs, lane: int, request: int, function: int) -> None:
    """A request waits for an instance."""
    runs.status[lane, request] = WAITS_FOR_ROOM
    runs.link[lane, request] = NOBODY
    if runs.of[lane, function, WAITING] == 0:
        runs.of[lane, function, HEAD] = request
    else:
        runs.link[lane, runs.of[lane, function, TAIL]] = request
    runs.of[lane, function, TAIL] = request
    runs.of[lane, function, WAITING] += 1
    runs.tally[lane, QUEUED] += 1


@compiled
def next_in_queue(runs: Runs, lane: int, function: int) -> int:
    """The request that waits longest leaves the queue."""
    request = runs.of[lane, function, HEAD]
    runs.of[lane, function, HEAD] = runs.link[lane, request]
    runs.of[lane, function, WAITING] -= 1
    runs.tally[lane, QUEUED] -= 1
    return int(request)


@compiled
def finish(work: Work, runs: Runs, lane: int, request: int, one: int) -> None:
    """A request has run; what it used is free again, its slot is not yet."""
    episode, now = runs.tally[lane, EPISODE], runs.figure[lane, NOW]
    function, node = runs.instance[lane, one, FUNCTION], runs.instance[lane, one, NODE]
    row = work.first_function[episode] + function
    runs.node[lane, node, BUSY_CPU] -= work.need[row, CPU_USE]
    runs.node[lane, node, NET] -= work.need[row, NET]
    runs.node[lane, node, DISK] -= work.need[row, DISK]
    runs.status[lane, request] = DONE
    runs.tally[lane, SERVED] += 1
    if runs.ended.shape[1]:
        runs.ended[lane, request] = now
    rfrt = (now - work.arrival[work.first[episode] + request]) / work.standard[row]
    runs.rate[lane, function, LAST_RFRT] = min(rfrt, CLIP)
    runs.rate[lane, function, LAST_ENDED] = now
    runs.figure[lane, RFRT] += min(rfrt, CLIP)
    low, high = work.term[LOW], work.term[HIGH]
    runs.figure[lane, SHARE] += min(max((rfrt - low) / (high - low), 0.0), 1.0)
    runs.figure[lane, ENDED] += 1.0
    if rfrt <= work.term[OBJECTIVE]:
        runs.figure[lane, MET] += 1.0
        runs.tally[lane, IN_TIME] += 1


@compiled
def drop(runs: Runs, lane: int, request: int) -> None:
    """A request is turned away, or has waited too long."""
    runs.status[lane, request] = GIVEN_UP
    runs.tally[lane, DROPPED] += 1
    runs.figure[lane, RFRT] += CLIP
    runs.figure[lane, SHARE] += 1.0
    runs.figure[lane, LOST] += 1.0


@compiled
def _push(runs: Runs, lane: int, when: float, request: int, one: int) -> None:
    """Into the heap; of equal times the request that came first is first."""
    place = runs.tally[lane, HEAPED]
    runs.tally[lane, HEAPED] += 1
    due, who, host = runs.due, runs.who, runs.host
    while place > 0:
        above = (place - 1) // 2
        if due[lane, above] < when or (due[lane, above] == when and who[lane, above] < request):
            break
        due[lane, place] = due[lane, above]
        who[lane, place] = who[lane, above]
        host[lane, place] = host[lane, above]
        place = above
    due[lane, place] = when
    who[lane, place] = request
    host[lane, place] = one


@compiled
def pop_ended(runs: Runs, lane: int) -> tuple[int, int]:
    """(request, instance) of the one that ends first."""
    due, who, host = runs.due, runs.who, runs.host
    first, where = who[lane, 0], host[lane, 0]
    last = runs.tally[lane, HEAPED] - 1
    runs.tally[lane, HEAPED] = last
    when, request, one = due[lane, last], who[lane, last], host[lane, last]
    place = 0
    while 2 * place + 1 < last:
        below = 2 * place + 1
        if below + 1 < last and (
            due[lane, below + 1] < due[lane, below]
            or (due[lane, below + 1] == due[lane, below] and who[lane, below + 1] < who[lane, below])
        ):
            below += 1
        if when < due[lane, below] or (when == due[lane, below] and request < who[lane, below]):
            break
        due[lane, place] = due[lane, below]
        who[lane, place] = who[lane, below]
        host[lane, place] = host[lane, below]
        place = below
    due[lane, place] = when
    who[lane, place] = request
    host[lane, place] = one
    return int(first), int(where)
