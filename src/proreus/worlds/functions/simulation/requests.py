"""What happens to requests: they run, wait in a queue or for a start, end or are dropped.

A request that starts on a node adds what it uses to what others use there. Its time is stretched by the
scarcest resource at that moment, and stays so:

    seconds x max(1, CPU used / CPU, network used / network, disk used / disk)
"""

from __future__ import annotations

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.functions.simulation.calendar import days_per_second, note_end
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs


@compiled
def run_on(work: FunctionsWork, runs: Runs, lane: int, request: int, one: int) -> None:
    """A request begins to run on an instance that is ready."""
    episode, now = runs.tally[lane, c.EPISODE], runs.figure[lane, c.NOW]
    row = work.first_function[episode] + runs.instance[lane, one, c.FUNCTION]
    node = runs.instance[lane, one, c.NODE]
    stretch = load_node(runs.node[lane], node, work.need, row, work.capacity)
    runs.status[lane, request] = c.RUNS
    runs.host[lane, request] = one
    if runs.began.shape[1]:
        runs.began[lane, request] = now
        runs.server[lane, request] = node
    ends = now + work.seconds[work.first[episode] + request] * stretch
    runs.due[lane, request] = ends
    pages = (runs.calendar[lane], runs.marked[lane])
    note_end(runs.due[lane], runs.link[lane], pages, request, days_per_second(work, episode))
    first = runs.tally[lane, c.LEAVING]
    if first == c.NOBODY or (ends, request) < (runs.due[lane, first], first):
        runs.tally[lane, c.LEAVING] = request
    runs.tally[lane, c.HEAPED] += 1


@compiled_inline
def load_node(node: I64, place: int, need: I64, row: int, capacity: I64) -> float:
    """A request uses CPU, network and disk of a node; how much longer it takes there. `node` of a lane."""
    node[place, c.BUSY_CPU] += need[row, c.CPU_USE]
    node[place, c.NET] += need[row, c.NET]
    node[place, c.DISK] += need[row, c.DISK]
    stretch = max(1.0, node[place, c.BUSY_CPU] / capacity[place, c.CPU])
    stretch = max(stretch, node[place, c.NET] / capacity[place, c.NET])
    return max(stretch, node[place, c.DISK] / capacity[place, c.DISK])


@compiled_inline
def unload_node(node: I64, place: int, need: I64, row: int) -> None:
    """What a request used of a node is free again."""
    node[place, c.BUSY_CPU] -= need[row, c.CPU_USE]
    node[place, c.NET] -= need[row, c.NET]
    node[place, c.DISK] -= need[row, c.DISK]


@compiled
def take_slot(runs: Runs, lane: int, one: int) -> None:
    """A request has a slot of an instance that starts."""
    function = runs.instance[lane, one, c.FUNCTION]
    runs.instance[lane, one, c.TAKEN] += 1
    runs.of[lane, function, c.OPEN] -= 1
    runs.of[lane, function, c.RUNNING] += 1


@compiled
def hold(runs: Runs, lane: int, request: int, one: int) -> None:
    """A request waits for its instance to start."""
    runs.status[lane, request] = c.HELD_BACK
    runs.tally[lane, c.HELD] += 1
    runs.tally[lane, c.COLD] += 1
    runs.link[lane, request] = c.NOBODY
    if runs.instance[lane, one, c.FIRST_HELD] == c.NOBODY:
        runs.instance[lane, one, c.FIRST_HELD] = request
    else:
        runs.link[lane, runs.instance[lane, one, c.LAST_HELD]] = request
    runs.instance[lane, one, c.LAST_HELD] = request


@compiled
def queue_up(runs: Runs, lane: int, request: int, function: int) -> None:
    """A request waits for an instance."""
    runs.status[lane, request] = c.WAITS_FOR_ROOM
    runs.link[lane, request] = c.NOBODY
    if runs.of[lane, function, c.WAITING] == 0:
        runs.of[lane, function, c.HEAD] = request
    else:
        runs.link[lane, runs.of[lane, function, c.TAIL]] = request
    runs.of[lane, function, c.TAIL] = request
    runs.of[lane, function, c.WAITING] += 1
    runs.tally[lane, c.QUEUED] += 1


@compiled
def next_in_queue(runs: Runs, lane: int, function: int) -> int:
    """The request that waits longest leaves the queue."""
    request = runs.of[lane, function, c.HEAD]
    runs.of[lane, function, c.HEAD] = runs.link[lane, request]
    runs.of[lane, function, c.WAITING] -= 1
    runs.tally[lane, c.QUEUED] -= 1
    return int(request)


@compiled
def drop(runs: Runs, lane: int, request: int) -> None:
    """A request is turned away, or has waited too long."""
    runs.status[lane, request] = c.GIVEN_UP
    runs.tally[lane, c.DROPPED] += 1
    runs.figure[lane, c.RFRT] += c.CLIP
    runs.figure[lane, c.SHARE] += 1.0
    runs.figure[lane, c.LOST] += 1.0
