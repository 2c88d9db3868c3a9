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

from proreus.kernels.compiled import compiled
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.simulation.requests import (
    drop,
    finish,
    hold,
    next_in_queue,
    pop_ended,
    queue_up,
    run_on,
    take_slot,
)
from proreus.worlds.functions.state.columns import (
    AGAIN,
    ASK,
    ASKED,
    BETA,
    CAME,
    DECISIONS,
    EPISODE,
    FIGURES,
    FIRST_HELD,
    FIXED,
    FREE,
    FULL_PRICE,
    FUNCTION,
    GAP,
    HEAD,
    HEAPED,
    HELD,
    IDLE,
    KEEPER,
    KEEPING,
    KEPT,
    KIND,
    LAST_CAME,
    LAST_ENDED,
    NEXT,
    NOBODY,
    NOTHING,
    NOW,
    OLDEST,
    OPEN,
    OVER,
    PAID,
    PATIENCE,
    PATIENT,
    PHASE,
    PLACING,
    PRICE,
    QUEUE,
    QUEUED,
    RUNNING,
    SEEN,
    SHARE,
    STARTS_UP,
    SUBJECT,
    TAKEN,
    WAITING,
    WAITS_FOR_ROOM,
    WAKER,
    YOUNGEST,
    Runs,
    Work,
)
from proreus.worlds.functions.state.histogram import kept_by_histogram, note_gap
from proreus.worlds.functions.state.instances import (
    become_busy,
    become_idle,
    close_instance,
    first_to_wake,
    fits_somewhere,
    open_instance,
    sleep,
    wake_at,
    with_room,
)

_LEARNS = 0.2
"""What the newest gap counts in a function's mean gap."""


@compiled
def begin(work: Work, runs: Runs, lane: int, episode: int) -> None:
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
    runs.of[lane, :, OLDEST] = NOBODY
    runs.of[lane, :, YOUNGEST] = NOBODY
    instances = runs.free.shape[1]
    for place in range(instances):
        runs.free[lane, place] = instances - 1 - place
    runs.tally[lane, FREE] = instances
    runs.tally[lane, WAKER] = NOBODY
    runs.tally[lane, EPISODE] = episode
    _mark(runs, lane)
    _advance(work, runs, lane)


@compiled
def put(work: Work, runs: Runs, lane: int, action: int) -> float:
    """Carry out a legal action by its number and run on; what it was worth, see `worth_since`."""
    nodes = work.price.size
    if action < nodes:
        return place_on(work, runs, lane, action)
    if action == nodes:
        return wait(work, runs, lane)
    return keep_for(work, runs, lane, KEEPS[action - nodes - 1])


@compiled
def place_on(work: Work, runs: Runs, lane: int, node: int) -> float:
    """An instance of the function at hand starts on a node."""
    function, now = runs.tally[lane, SUBJECT], runs.figure[lane, NOW]
    _decided(runs, lane)
    one = open_instance(work, runs, lane, function, node, now)
    head = runs.of[lane, function, HEAD]
    seconds = work.cold[work.first[runs.tally[lane, EPISODE]] + head]
    wake_at(runs, lane, one, now + seconds)
    while runs.of[lane, function, WAITING] > 0 and runs.of[lane, function, OPEN] > 0:
        request = next_in_queue(runs, lane, function)
        take_slot(runs, lane, request, one)
        hold(runs, lane, request, one)
    if runs.of[lane, function, WAITING] > 0:
        _ask_later(runs, lane, function)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def wait(work: Work, runs: Runs, lane: int) -> float:
    """No instance starts now."""
    _decided(runs, lane)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def keep_for(work: Work, runs: Runs, lane: int, seconds: float) -> float:
    """The instance at hand stays for so long."""
    one = runs.tally[lane, SUBJECT]
    _decided(runs, lane)
    _keep(work, runs, lane, one, seconds)
    _advance(work, runs, lane)
    return worth_since(work, runs, lane)


@compiled
def worth_since(work: Work, runs: Runs, lane: int) -> float:
    """Minus what the objective (see `outcome`) grew by since the decision before: what really happened."""
    episode = runs.tally[lane, EPISODE]
    requests = work.first[episode + 1] - work.first[episode]
    share = (runs.figure[lane, SHARE] - runs.mark[lane, SHARE]) / requests
    paid = runs.figure[lane, PAID] - runs.mark[lane, PAID]
    cost = paid / (work.term[FULL_PRICE] * work.horizon[episode]) if work.term[FULL_PRICE] > 0.0 else 0.0
    beta = work.term[BETA]
    return -100.0 * (beta * share + (1.0 - beta) * cost)


@compiled
def _decided(runs: Runs, lane: int) -> None:
    runs.tally[lane, DECISIONS] += 1
    runs.tally[lane, KIND] = NOTHING
    _mark(runs, lane)


@compiled
def _mark(runs: Runs, lane: int) -> None:
    for figure in range(FIGURES):
        runs.mark[lane, figure] = runs.figure[lane, figure]


@compiled
def _advance(work: Work, runs: Runs, lane: int) -> None:
    """To the next decision, or to the end."""
    while runs.tally[lane, KIND] == NOTHING:
        if runs.tally[lane, AGAIN] > 0:
            _ask_again(work, runs, lane)
        else:
            _happen(work, runs, lane)


@compiled
def _happen(work: Work, runs: Runs, lane: int) -> None:
    """The next event."""
    episode = runs.tally[lane, EPISODE]
    base, end = work.first[episode], work.first[episode + 1]
    request = runs.tally[lane, NEXT]
    coming = work.arrival[base + request] if base + request < end else np.inf
    ending = runs.due[lane, 0] if runs.tally[lane, HEAPED] > 0 else np.inf
    one = first_to_wake(runs, lane)
    waking = runs.wake[lane, one] if one != NOBODY else np.inf
    losing = _next_loss(work, runs, lane)
    busy = runs.tally[lane, HEAPED] + runs.tally[lane, QUEUED] + runs.tally[lane, HELD]
    if base + request >= end and busy == 0 and not waking < work.horizon[episode]:
        _move_clock(runs, lane, max(runs.figure[lane, NOW], work.horizon[episode]))
        runs.tally[lane, KIND] = OVER
    elif ending <= waking and ending <= losing and ending <= coming:
        _move_clock(runs, lane, ending)
        _end(work, runs, lane)
    elif waking <= losing and waking <= coming:
        _move_clock(runs, lane, waking)
        _wake(work, runs, lane, one)
    elif losing <= coming:
        _move_clock(runs, lane, losing)
        _lose(work, runs, lane)
    else:
        _move_clock(runs, lane, coming)
        runs.tally[lane, NEXT] += 1
        _arrive(work, runs, lane, request)


@compiled
def _move_clock(runs: Runs, lane: int, now: float) -> None:
    """Active nodes are paid for the time that passes."""
    runs.figure[lane, PAID] += runs.tally[lane, PRICE] * (now - runs.figure[lane, NOW])
    runs.figure[lane, NOW] = now


@compiled
def _next_loss(work: Work, runs: Runs, lane: int) -> float:
    """When the next request runs out of patience: they do so in the order in which they came."""
    if runs.tally[lane, QUEUED] == 0:
        return np.inf
    request = runs.tally[lane, PATIENT]
    while runs.status[lane, request] != WAITS_FOR_ROOM:
        request += 1
    runs.tally[lane, PATIENT] = request
    return float(work.arrival[work.first[runs.tally[lane, EPISODE]] + request] + work.term[PATIENCE])


@compiled
def _lose(work: Work, runs: Runs, lane: int) -> None:
    request = runs.tally[lane, PATIENT]
    function = work.function[work.first[runs.tally[lane, EPISODE]] + request]
    next_in_queue(runs, lane, function)
    drop(runs, lane, request)


@compiled
def _arrive(work: Work, runs: Runs, lane: int, request: int) -> None:
    function = int(work.function[work.first[runs.tally[lane, EPISODE]] + request])
    runs.tally[lane, CAME] += 1
    _note_arrival(runs, lane, function)
    if runs.of[lane, function, OPEN] > 0:
        one = with_room(work, runs, lane, function)
        take_slot(runs, lane, request, one)
        if runs.instance[lane, one, PHASE] == STARTS_UP:
            hold(runs, lane, request, one)
        else:
            if runs.instance[lane, one, PHASE] == IDLE:
                become_busy(runs, lane, one)
            run_on(work, runs, lane, request, one)
    elif runs.of[lane, function, WAITING] >= work.option[QUEUE]:
        drop(runs, lane, request)
    else:
        queue_up(runs, lane, request, function)
        _ask(work, runs, lane, function)


@compiled
def _note_arrival(runs: Runs, lane: int, function: int) -> None:
    """What policies know of a function: its gaps, and how long it idled."""
    now = runs.figure[lane, NOW]
    if runs.of[lane, function, SEEN] > 0:
        gap = now - runs.rate[lane, function, LAST_CAME]
        weight = 1.0 if runs.of[lane, function, SEEN] == 1 else _LEARNS
        runs.rate[lane, function, GAP] += weight * (gap - runs.rate[lane, function, GAP])
        idle = runs.of[lane, function, RUNNING] + runs.of[lane, function, WAITING] == 0
        if idle:
            note_gap(runs, lane, function, now - runs.rate[lane, function, LAST_ENDED])
    runs.of[lane, function, SEEN] += 1
    runs.rate[lane, function, LAST_CAME] = now


@compiled
def _end(work: Work, runs: Runs, lane: int) -> None:
    """A request ends; the next one of the queue has its slot, or the slot is free."""
    request, one = pop_ended(runs, lane)
    function = runs.instance[lane, one, FUNCTION]
    finish(work, runs, lane, request, one)
    if runs.of[lane, function, WAITING] > 0:
        run_on(work, runs, lane, next_in_queue(runs, lane, function), one)
        return
    runs.instance[lane, one, TAKEN] -= 1
    runs.of[lane, function, OPEN] += 1
    runs.of[lane, function, RUNNING] -= 1
    if runs.instance[lane, one, TAKEN] == 0:
        become_idle(runs, lane, one)
        _ask_how_long(work, runs, lane, one)


@compiled
def _ask_how_long(work: Work, runs: Runs, lane: int, one: int) -> None:
    keeper = work.option[KEEPER]
    if keeper == ASKED:
        runs.tally[lane, KIND] = KEEPING
        runs.tally[lane, SUBJECT] = one
    elif keeper == FIXED:
        _keep(work, runs, lane, one, work.term[KEPT])
    else:
        function = runs.instance[lane, one, FUNCTION]
        _keep(work, runs, lane, one, kept_by_histogram(runs, lane, function, work.term[KEPT]))


@compiled
def _keep(work: Work, runs: Runs, lane: int, one: int, seconds: float) -> None:
    if seconds > 0.0:
        wake_at(runs, lane, one, runs.figure[lane, NOW] + seconds)
    else:
        _give_up(work, runs, lane, one)


@compiled
def _wake(work: Work, runs: Runs, lane: int, one: int) -> None:
    """An instance has started and runs what it held, or has idled long enough."""
    if runs.instance[lane, one, PHASE] != STARTS_UP:
        sleep(runs, lane, one)
        _give_up(work, runs, lane, one)
        return
    become_busy(runs, lane, one)
    request = runs.instance[lane, one, FIRST_HELD]
    while request != NOBODY:
        behind = runs.link[lane, request]
        runs.tally[lane, HELD] -= 1
        run_on(work, runs, lane, request, one)
        request = behind
    runs.instance[lane, one, FIRST_HELD] = NOBODY


@compiled
def _give_up(work: Work, runs: Runs, lane: int, one: int) -> None:
    """An idle instance goes; whoever waits for room is asked about again."""
    close_instance(work, runs, lane, one, runs.figure[lane, NOW])
    if runs.tally[lane, QUEUED] > 0:
        for function in range(runs.of.shape[1]):
            if runs.of[lane, function, WAITING] > 0:
                _ask_later(runs, lane, function)


@compiled
def _ask_later(runs: Runs, lane: int, function: int) -> None:
    if runs.of[lane, function, ASK] == 0:
        runs.of[lane, function, ASK] = 1
        runs.tally[lane, AGAIN] += 1


@compiled
def _ask_again(work: Work, runs: Runs, lane: int) -> None:
    """About the function of the lowest number that is to be asked about."""
    function = 0
    while runs.of[lane, function, ASK] == 0:
        function += 1
    runs.of[lane, function, ASK] = 0
    runs.tally[lane, AGAIN] -= 1
    if runs.of[lane, function, WAITING] > 0:
        _ask(work, runs, lane, function)


@compiled
def _ask(work: Work, runs: Runs, lane: int, function: int) -> None:
    if fits_somewhere(work, runs, lane, function):
        runs.tally[lane, KIND] = PLACING
        runs.tally[lane, SUBJECT] = function
