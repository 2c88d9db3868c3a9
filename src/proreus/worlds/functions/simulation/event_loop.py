"""The loop over events: requests come and meet an instance that is ready, requests end.

Nearly all events are of this kind, some eighty between two placements. So the loop has a lane's arrays
at hand, clock and sums in local names, and works out nothing again that cannot have changed. It stops at the
first event that is more than that, which `kernel` carries out.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.jit import compiled
from proreus.worlds.functions.simulation.requests import join_running, load_node, unload_node
from proreus.worlds.functions.state.columns import (
    CAME,
    CLIP,
    CONCURRENCY,
    DONE,
    ENDED,
    EPISODE,
    FIXED,
    FUNCTION,
    GAP,
    HEAPED,
    HELD,
    HIGH,
    IDLE,
    IN_TIME,
    KEEPER,
    KEPT,
    LAST_CAME,
    LAST_ENDED,
    LAST_RFRT,
    LOW,
    MET,
    NEXT,
    NOBODY,
    NODE,
    NOW,
    OBJECTIVE,
    OPEN,
    PAID,
    PATIENCE,
    PATIENT,
    PHASE,
    PRICE,
    QUEUED,
    RESTS,
    RFRT,
    RUNNING,
    RUNS,
    SEEN,
    SERVED,
    SHARE,
    SPARE,
    TAKEN,
    WAITING,
    WAITS_FOR_ROOM,
    WAKES,
    FunctionsWork,
    Runs,
)
from proreus.worlds.functions.state.idle_histogram import note_gap
from proreus.worlds.functions.state.instances import (
    become_busy,
    become_idle,
    first_to_wake,
    idle_until,
    offer_room,
    pass_spare_on,
)

FINISHED, WOKEN, LOSES, COMES, FREED, IDLES = range(6)
"""What the loop stops at: all is over; an instance wakes; patience ends; no ready instance has room for a
request that comes; somebody waits for a slot that is free; nobody said how long an idle instance stays."""
_LEARNS = 0.2
"""What the newest gap counts in a function's mean gap."""


@compiled
def serve(work: FunctionsWork, runs: Runs, lane: int) -> tuple[int, int]:
    """Run on to (what the loop stops at, its instance or request); the clock stands there."""
    tally, figure = runs.tally[lane], runs.figure[lane]
    of, rate, gaps = runs.of[lane], runs.rate[lane], runs.gaps[lane]
    node, instance = runs.node[lane], runs.instance[lane]
    wake, noted = runs.wake[lane], runs.noted[lane]
    due, who, host, status = runs.due[lane], runs.who[lane], runs.host[lane], runs.status[lane]
    began_at, ended_at, server = runs.began[lane], runs.ended[lane], runs.server[lane]
    arrival, need, standard = work.arrival, work.need, work.standard
    capacity, seconds, functions = work.capacity, work.seconds, work.function
    episode = tally[EPISODE]
    base, last = work.first[episode], work.first[episode + 1] - work.first[episode]
    first_row, horizon = work.first_function[episode], work.horizon[episode]
    low, high, objective = work.term[LOW], work.term[HIGH], work.term[OBJECTIVE]
    kept = work.term[KEPT] if work.option[KEEPER] == FIXED else 0.0
    # Nobody joins or leaves a queue and no node becomes active in here.
    losing, others, price = _next_loss(work, runs, lane), tally[QUEUED] + tally[HELD], tally[PRICE]
    now, paid, rfrt_sum, share = figure[NOW], figure[PAID], figure[RFRT], figure[SHARE]
    running, request, served, met = tally[HEAPED], tally[NEXT], 0, 0
    before = request
    stops, subject = FINISHED, NOBODY
    while True:
        coming = arrival[base + request] if request < last else np.inf
        ending = due[running - 1] if running > 0 else np.inf
        soonest = min(coming, ending, losing)
        if figure[WAKES] <= soonest:
            subject = first_to_wake(runs, lane)
            waking = figure[WAKES]
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
            ends = who[running]
            one = host[ends]
            function = instance[one, FUNCTION]
            row = first_row + function
            unload_node(node, instance[one, NODE], need, row)
            status[ends] = DONE
            if ended_at.size:
                ended_at[ends] = now
            rfrt = (now - arrival[base + ends]) / standard[row]
            rate[function, LAST_RFRT] = min(rfrt, CLIP)
            rate[function, LAST_ENDED] = now
            rfrt_sum += min(rfrt, CLIP)
            share += min(max((rfrt - low) / (high - low), 0.0), 1.0)
            served += 1
            met += rfrt <= objective
            if of[function, WAITING] > 0:
                stops, subject = FREED, one
                break
            instance[one, TAKEN] -= 1
            of[function, OPEN] += 1
            of[function, RUNNING] -= 1
            offer_room(of, instance, one)
            if instance[one, TAKEN] == 0:
                become_idle(instance, node, one)
                if kept <= 0.0:
                    stops, subject = IDLES, one
                    break
                if noted[one] and now + kept >= figure[RESTS]:
                    wake[one] = now + kept
                else:
                    idle_until(runs, lane, one, now + kept)
        elif losing <= soonest:
            paid += price * (losing - now)
            now, stops = losing, LOSES
            break
        else:
            paid += price * (coming - now)
            now = coming
            function = functions[base + request]
            _note_arrival(of, rate, gaps, function, now)
            one = of[function, SPARE]
            coming_one = request
            request += 1
            if one == NOBODY:
                stops, subject = COMES, coming_one
                break
            row = first_row + function
            instance[one, TAKEN] += 1
            of[function, OPEN] -= 1
            of[function, RUNNING] += 1
            if instance[one, TAKEN] == need[row, CONCURRENCY]:
                pass_spare_on(of, instance, function, need[row, CONCURRENCY])
            if instance[one, PHASE] == IDLE:
                become_busy(instance, node, one)
            place = instance[one, NODE]
            stretch = load_node(node, place, need, row, capacity)
            status[coming_one] = RUNS
            host[coming_one] = one
            if began_at.size:
                began_at[coming_one], server[coming_one] = now, place
            join_running(due, who, running, now + seconds[base + coming_one] * stretch, coming_one)
            running += 1
    figure[NOW], figure[PAID], figure[RFRT], figure[SHARE] = now, paid, rfrt_sum, share
    figure[ENDED] += served
    figure[MET] += met
    tally[SERVED] += served
    tally[IN_TIME] += met
    tally[CAME] += request - before
    tally[NEXT], tally[HEAPED] = request, running
    return stops, subject


@compiled
def _note_arrival(of: I64, rate: F64, gaps: I32, function: int, now: float) -> None:
    """What policies know of a function: its gaps, and how long it idled."""
    if of[function, SEEN] > 0:
        weight = 1.0 if of[function, SEEN] == 1 else _LEARNS
        rate[function, GAP] += weight * (now - rate[function, LAST_CAME] - rate[function, GAP])
        if of[function, RUNNING] + of[function, WAITING] == 0:
            note_gap(gaps, function, now - rate[function, LAST_ENDED])
    of[function, SEEN] += 1
    rate[function, LAST_CAME] = now


@compiled
def _next_loss(work: FunctionsWork, runs: Runs, lane: int) -> float:
    """When the next request runs out of patience: they do so in the order in which they came."""
    if runs.tally[lane, QUEUED] == 0:
        return np.inf
    request = runs.tally[lane, PATIENT]
    while runs.status[lane, request] != WAITS_FOR_ROOM:
        request += 1
    runs.tally[lane, PATIENT] = request
    return float(work.arrival[work.first[runs.tally[lane, EPISODE]] + request] + work.term[PATIENCE])
