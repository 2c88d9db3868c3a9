"""The loop over events: requests come and meet an instance that is ready, requests end.

Nearly all events are of this kind, some eighty between two placements. So the loop has a lane's arrays
at hand, clock and sums in local names, and works out nothing again that cannot have changed; it counts no
references of arrays, and its indices are unsigned. It stops at the first event that is more than that, which
`kernel` carries out.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.indices import unsigned, unsigned_word
from proreus.kernels.jit import compiled, compiled_inline
from proreus.kernels.structs import borrowed
from proreus.worlds.functions.simulation.calendar import (
    day_of,
    days_per_second,
    next_end,
    note_end,
    strike_end,
)
from proreus.worlds.functions.simulation.requests import load_node, unload_node
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.idle_histogram import note_gap
from proreus.worlds.functions.state.instances import (
    become_busy,
    become_idle,
    first_to_wake,
    idle_until,
)
from proreus.worlds.functions.state.spares import offer_room, withdraw_first

FINISHED, WOKEN, LOSES, COMES, FREED, IDLES = range(6)
"""What the loop stops at: all is over; an instance wakes; patience ends; no ready instance has room for a
request that comes; somebody waits for a slot that is free; nobody said how long an idle instance stays."""
_LEARNS = 0.2
"""What the newest gap counts in a function's mean gap."""


@compiled
def serve(work: FunctionsWork, runs: Runs, lane: int) -> tuple[int, int]:
    """Run on to (what the loop stops at, its instance or request); the clock stands there."""
    tally, figure = borrowed(runs.tally)[lane], borrowed(runs.figure)[lane]
    of, rate, gaps = borrowed(runs.of)[lane], borrowed(runs.rate)[lane], borrowed(runs.gaps)[lane]
    node, instance = borrowed(runs.node)[lane], borrowed(runs.instance)[lane]
    wake, noted = borrowed(runs.wake)[lane], borrowed(runs.noted)[lane]
    crew, spare = borrowed(runs.crew)[lane], borrowed(runs.spare)[lane]
    words = unsigned_word(crew.size // 64)
    due, link = borrowed(runs.due)[lane], borrowed(runs.link)[lane]
    pages = (borrowed(runs.calendar)[lane], borrowed(runs.marked)[lane])
    host, status = borrowed(runs.host)[lane], borrowed(runs.status)[lane]
    began_at, ended_at = borrowed(runs.began)[lane], borrowed(runs.ended)[lane]
    server = borrowed(runs.server)[lane]
    episode = tally[c.EPISODE]
    base, last = work.first[episode], work.first[episode + 1] - work.first[episode]
    first_row, horizon = work.first_function[episode], work.horizon[episode]
    arrival, seconds = borrowed(work.arrival)[base:], borrowed(work.seconds)[base:]
    functions, capacity = borrowed(work.function)[base:], borrowed(work.capacity)
    need, standard = borrowed(work.need)[first_row:], borrowed(work.standard)[first_row:]
    low, high, objective = work.term[c.LOW], work.term[c.HIGH], work.term[c.OBJECTIVE]
    kept = work.term[c.KEPT] if work.option[c.KEEPER] == c.FIXED else 0.0
    # Nobody joins or leaves a queue and no node becomes active in here.
    losing, others, price = _next_loss(work, runs, lane), tally[c.QUEUED] + tally[c.HELD], tally[c.PRICE]
    now, paid, rfrt_sum, share = figure[c.NOW], figure[c.PAID], figure[c.RFRT], figure[c.SHARE]
    running, request, served, met = tally[c.HEAPED], tally[c.NEXT], 0, 0
    before = request
    pace, leaving = days_per_second(work, episode), unsigned(max(tally[c.LEAVING], 0))
    ending = due[leaving] if running > 0 else np.inf
    today = day_of(ending, pace) if running > 0 else 0
    stops, subject = FINISHED, c.NOBODY
    while True:
        coming = arrival[request] if request < last else np.inf
        soonest = min(coming, ending, losing)
        if figure[c.WAKES] <= soonest:
            subject = first_to_wake(runs, lane)
            waking = figure[c.WAKES]
            if request >= last and running + others == 0 and not waking < horizon:
                paid += price * (max(now, horizon) - now)
                now = max(now, horizon)
                break
            if waking < ending and waking <= soonest:
                paid += price * (waking - now)
                now, stops = waking, WOKEN
                break
        if ending <= soonest:
            paid += price * (ending - now)
            now = ending
            running -= 1
            ends = leaving
            strike_end(link, pages, ends, today)
            ending = np.inf
            if running > 0:
                leaving, today = next_end(due, link, pages, today, pace)
                ending = due[leaving]
            one = unsigned(host[ends])
            function = unsigned(instance[one, c.FUNCTION])
            unload_node(node, unsigned(instance[one, c.NODE]), need, function)
            status[ends] = c.DONE
            if ended_at.size:
                ended_at[ends] = now
            rfrt = (now - arrival[ends]) / standard[function]
            rate[function, c.LAST_RFRT] = min(rfrt, c.CLIP)
            rate[function, c.LAST_ENDED] = now
            rfrt_sum += min(rfrt, c.CLIP)
            share += min(max((rfrt - low) / (high - low), 0.0), 1.0)
            served += 1
            met += rfrt <= objective
            if of[function, c.WAITING] > 0:
                stops, subject = FREED, one
                break
            taken = instance[one, c.TAKEN]
            instance[one, c.TAKEN] = taken - 1
            of[function, c.OPEN] += 1
            of[function, c.RUNNING] -= 1
            if taken == need[function, c.CONCURRENCY]:
                offer_room(of, instance, spare, words, one)
            if taken == 1:
                become_idle(instance, node, one)
                if kept <= 0.0:
                    stops, subject = IDLES, one
                    break
                if noted[one] and now + kept >= figure[c.RESTS]:
                    wake[one] = now + kept
                else:
                    idle_until(runs, lane, int(one), now + kept)
        elif losing <= soonest:
            paid += price * (losing - now)
            now, stops = losing, LOSES
            break
        else:
            paid += price * (coming - now)
            now = coming
            function = unsigned(functions[request])
            _note_arrival(of, rate, gaps, function, now)
            place = of[function, c.SPARE]
            coming_one = unsigned(request)
            request += 1
            if place == c.NO_PLACE:
                stops, subject = COMES, coming_one
                break
            one = unsigned(crew[unsigned(place)])
            taken = instance[one, c.TAKEN] + 1
            instance[one, c.TAKEN] = taken
            of[function, c.OPEN] -= 1
            of[function, c.RUNNING] += 1
            if taken == need[function, c.CONCURRENCY]:
                withdraw_first(of, spare, words, function)
            if instance[one, c.PHASE] == c.IDLE:
                become_busy(instance, node, one)
            where = unsigned(instance[one, c.NODE])
            stretch = load_node(node, where, need, function, capacity)
            status[coming_one] = c.RUNS
            host[coming_one] = one
            if began_at.size:
                began_at[coming_one], server[coming_one] = now, where
            due[coming_one] = now + seconds[coming_one] * stretch
            note_end(due, link, pages, coming_one, pace)
            # The stretch is known late, and is not less than one: few requests need it to be told here.
            # Of equals the one that came first ends first, and it runs already.
            if now + seconds[coming_one] < ending and due[coming_one] < ending:
                leaving, ending = coming_one, due[coming_one]
                today = day_of(ending, pace)
            running += 1
    figure[c.NOW], figure[c.PAID], figure[c.RFRT], figure[c.SHARE] = now, paid, rfrt_sum, share
    figure[c.ENDED] += served
    figure[c.MET] += met
    tally[c.SERVED] += served
    tally[c.IN_TIME] += met
    tally[c.CAME] += request - before
    tally[c.NEXT], tally[c.HEAPED] = request, running
    tally[c.LEAVING] = np.int64(leaving) if running > 0 else c.NOBODY
    return stops, subject


@compiled_inline
def _note_arrival(of: I64, rate: F64, gaps: I32, function: int, now: float) -> None:
    """What policies know of a function: its gaps, and how long it idled."""
    if of[function, c.SEEN] > 0:
        weight = 1.0 if of[function, c.SEEN] == 1 else _LEARNS
        rate[function, c.GAP] += weight * (now - rate[function, c.LAST_CAME] - rate[function, c.GAP])
        if of[function, c.RUNNING] + of[function, c.WAITING] == 0:
            note_gap(gaps, function, now - rate[function, c.LAST_ENDED])
    of[function, c.SEEN] += 1
    rate[function, c.LAST_CAME] = now


@compiled
def _next_loss(work: FunctionsWork, runs: Runs, lane: int) -> float:
    """When the next request runs out of patience: they do so in the order in which they came."""
    if runs.tally[lane, c.QUEUED] == 0:
        return np.inf
    request = runs.tally[lane, c.PATIENT]
    while runs.status[lane, request] != c.WAITS_FOR_ROOM:
        request += 1
    runs.tally[lane, c.PATIENT] = request
    return float(work.arrival[work.first[runs.tally[lane, c.EPISODE]] + request] + work.term[c.PATIENCE])
