"""The clock of the world `functions`: a run stops only where somebody has to decide.

At one moment: requests end, then instances are ready or given up, then patience ends, then requests come.
`begin` starts a lane, `put` carries out a decision and runs on to the next one. A request goes to an instance
with a free slot; where there is none, and a node has room, the function comes up for a decision: a new
instance on which node, or wait. Asked again is at the next request of the function, when an instance is given
up, and while requests are left over. An instance that has become idle comes up for the other decision: how
long it stays.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.simulation.event_loop import COMES, FINISHED, FREED, LOSES, WOKEN, serve
from proreus.worlds.functions.simulation.requests import (
    drop,
    hold,
    next_in_queue,
    queue_up,
    run_on,
    take_slot,
)
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.idle_histogram import kept_by_histogram
from proreus.worlds.functions.state.instances import (
    become_ready,
    close_instance,
    fits_somewhere,
    idle_until,
    open_instance,
    ready_at,
    starting_with_room,
)


@compiled
def begin(work: FunctionsWork, runs: Runs, lane: int, episode: int) -> None:
    """Start an episode with empty nodes, and run to the first decision."""
    runs.tally[lane] = 0
    runs.figure[lane] = 0.0
    runs.node[lane] = 0
    runs.active[lane] = 0.0
    runs.replicas[lane] = 0
    runs.of[lane] = 0
    runs.rate[lane] = 0.0
    runs.gaps[lane] = 0
    runs.instance[lane] = 0
    runs.status[lane] = 0
    runs.calendar[lane] = c.NOBODY
    runs.marked[lane] = 0
    runs.tally[lane, c.LEAVING] = c.NOBODY
    runs.of[lane, :, c.OLDEST] = c.NOBODY
    runs.of[lane, :, c.YOUNGEST] = c.NOBODY
    runs.of[lane, :, c.SPARE] = c.NO_PLACE
    runs.spare[lane] = 0
    runs.noted[lane] = False
    instances = runs.free.shape[1]
    for place in range(instances):
        runs.free[lane, place] = instances - 1 - place
    runs.tally[lane, c.FREE] = instances
    runs.figure[lane, c.WAKES] = np.inf
    runs.figure[lane, c.RESTS] = np.inf
    runs.tally[lane, c.EPISODE] = episode
    _mark(runs, lane)
    _advance(work, runs, lane)


@compiled
def put(work: FunctionsWork, runs: Runs, lane: int, action: int) -> float:
    """Carry out a legal action by its number and run on; what it was worth, see `worth_since`."""
    nodes = work.price.size
    if action < nodes:
        return place_on(work, runs, lane, action)
    if action == nodes:
        return wait(work, runs, lane)
    return keep_for(work, runs, lane, KEEPS[action - nodes - 1])


@compiled
def place_on(work: FunctionsWork, runs: Runs, lane: int, node: int) -> float:
    """An instance of the function at hand starts on a node."""
    function, now = runs.tally[lane, c.SUBJECT], runs.figure[lane, c.NOW]
    _decided(runs, lane)
    instance = open_instance(work, runs, lane, function, node)
    head = runs.of[lane, function, c.HEAD]
    seconds = work.cold[work.first[runs.tally[lane, c.EPISODE]] + head]
    ready_at(runs, lane, instance, now + seconds)
    while runs.of[lane, function, c.WAITING] > 0 and runs.of[lane, function, c.OPEN] > 0:
        request = next_in_queue(runs, lane, function)
        take_slot(runs, lane, instance)
        hold(runs, lane, request, instance)
    if runs.of[lane, function, c.WAITING] > 0:
        _ask_later(runs, lane, function)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def wait(work: FunctionsWork, runs: Runs, lane: int) -> float:
    """No instance starts now."""
    _decided(runs, lane)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def keep_for(work: FunctionsWork, runs: Runs, lane: int, seconds: float) -> float:
    """The instance at hand stays for so long."""
    one = runs.tally[lane, c.SUBJECT]
    _decided(runs, lane)
    _keep(work, runs, lane, one, seconds)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def worth_since(work: FunctionsWork, runs: Runs, lane: int) -> float:
    """Minus what the objective (see `outcome`) grew by since the decision before: what really happened."""
    episode = runs.tally[lane, c.EPISODE]
    requests = work.first[episode + 1] - work.first[episode]
    share = (runs.figure[lane, c.SHARE] - runs.mark[lane, c.SHARE]) / requests
    paid = runs.figure[lane, c.PAID] - runs.mark[lane, c.PAID]
    cost = paid / (work.term[c.FULL_PRICE] * work.horizon[episode]) if work.term[c.FULL_PRICE] > 0.0 else 0.0
    beta = work.term[c.BETA]
    return -100.0 * (beta * share + (1.0 - beta) * cost)


@compiled
def _decided(runs: Runs, lane: int) -> None:
    runs.tally[lane, c.DECISIONS] += 1
    runs.tally[lane, c.KIND] = c.NOTHING
    _mark(runs, lane)


@compiled
def _mark(runs: Runs, lane: int) -> None:
    for figure in range(c.FIGURES):
        runs.mark[lane, figure] = runs.figure[lane, figure]


@compiled
def _advance(work: FunctionsWork, runs: Runs, lane: int) -> None:
    """To the next decision, or to the end."""
    while runs.tally[lane, c.KIND] == c.NOTHING:
        if runs.tally[lane, c.AGAIN] > 0:
            _ask_again(work, runs, lane)
        else:
            _happen(work, runs, lane)


@compiled
def _happen(work: FunctionsWork, runs: Runs, lane: int) -> None:
    """The next event that is more than a request which finds a slot or leaves one."""
    event, subject = serve(work, runs, lane)
    if event == FINISHED:
        runs.tally[lane, c.KIND] = c.OVER
    elif event == WOKEN:
        _wake(work, runs, lane, subject)
    elif event == LOSES:
        _lose(work, runs, lane)
    elif event == COMES:
        _arrive(work, runs, lane, subject)
    elif event == FREED:
        function = runs.instance[lane, subject, c.FUNCTION]
        run_on(work, runs, lane, next_in_queue(runs, lane, function), subject)
    else:
        _ask_how_long(work, runs, lane, subject)


@compiled
def _lose(work: FunctionsWork, runs: Runs, lane: int) -> None:
    request = runs.tally[lane, c.PATIENT]
    function = work.function[work.first[runs.tally[lane, c.EPISODE]] + request]
    next_in_queue(runs, lane, function)
    drop(runs, lane, request)


@compiled
def _arrive(work: FunctionsWork, runs: Runs, lane: int, request: int) -> None:
    """A request comes, and no instance that is ready has room."""
    function = int(work.function[work.first[runs.tally[lane, c.EPISODE]] + request])
    if runs.of[lane, function, c.OPEN] > 0:
        one = starting_with_room(work, runs, lane, function)
        take_slot(runs, lane, one)
        hold(runs, lane, request, one)
    elif runs.of[lane, function, c.WAITING] >= work.option[c.QUEUE]:
        drop(runs, lane, request)
    else:
        queue_up(runs, lane, request, function)
        _ask(work, runs, lane, function)


@compiled
def _ask_how_long(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    keeper = work.option[c.KEEPER]
    if keeper == c.ASKED:
        runs.tally[lane, c.KIND] = c.KEEPING
        runs.tally[lane, c.SUBJECT] = one
    elif keeper == c.FIXED:
        _keep(work, runs, lane, one, work.term[c.KEPT])
    else:
        function = runs.instance[lane, one, c.FUNCTION]
        _keep(work, runs, lane, one, kept_by_histogram(runs, lane, function, work.term[c.KEPT]))


@compiled
def _keep(work: FunctionsWork, runs: Runs, lane: int, one: int, seconds: float) -> None:
    if seconds > 0.0:
        idle_until(runs, lane, one, runs.figure[lane, c.NOW] + seconds)
    else:
        _give_up(work, runs, lane, one)


@compiled
def _wake(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    """An instance has started and runs what it held, or has idled long enough."""
    if runs.instance[lane, one, c.PHASE] != c.STARTS_UP:
        _give_up(work, runs, lane, one)
        return
    become_ready(work, runs, lane, one)
    request = runs.instance[lane, one, c.FIRST_HELD]
    while request != c.NOBODY:
        behind = runs.link[lane, request]
        runs.tally[lane, c.HELD] -= 1
        run_on(work, runs, lane, request, one)
        request = behind
    runs.instance[lane, one, c.FIRST_HELD] = c.NOBODY


@compiled
def _give_up(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    """An idle instance goes; whoever waits for room is asked about again."""
    close_instance(work, runs, lane, one, runs.figure[lane, c.NOW])
    if runs.tally[lane, c.QUEUED] > 0:
        for function in range(runs.of.shape[1]):
            if runs.of[lane, function, c.WAITING] > 0:
                _ask_later(runs, lane, function)


@compiled
def _ask_later(runs: Runs, lane: int, function: int) -> None:
    if runs.of[lane, function, c.ASK] == 0:
        runs.of[lane, function, c.ASK] = 1
        runs.tally[lane, c.AGAIN] += 1


@compiled
def _ask_again(work: FunctionsWork, runs: Runs, lane: int) -> None:
    """About the function of the lowest number that is to be asked about."""
    function = 0
    while runs.of[lane, function, c.ASK] == 0:
        function += 1
    runs.of[lane, function, c.ASK] = 0
    runs.tally[lane, c.AGAIN] -= 1
    if runs.of[lane, function, c.WAITING] > 0:
        _ask(work, runs, lane, function)


@compiled
def _ask(work: FunctionsWork, runs: Runs, lane: int, function: int) -> None:
    if fits_somewhere(work, runs, lane, function):
        runs.tally[lane, c.KIND] = c.PLACING
        runs.tally[lane, c.SUBJECT] = function
