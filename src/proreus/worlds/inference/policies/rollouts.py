"""Futures that are played: what comes of ordering so many instances now, in the fluid model of a service.

Every candidate is played in every future. After the first decision instances follow what `learned` would hold
as the future unfolds: it sees what has come by then and nothing of what will. As loads do not depend on what
is held, that is worked out once for a future and not for each candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.inference.policies.reserve import (
    M_EXPECTED,
    TOLD,
    Demand,
    ReserveNet,
    wanted_total,
)
from proreus.worlds.inference.state.fluid import SERVICE, STEP, flow, kept_share

PAID, MISSED = 0, 1
_HISTORY = 360
"""Intervals that a controller looks back on at most, as in the simulator."""
_DRAIN_SECONDS = 10.0
"""That an instance is paid for after it is told to go, as in the curriculum."""
_CLEAR_SECONDS = 25.0
"""Within which what waits at the end of a start is to be gone."""
_LEAST_SPARE = 1.0
"""Instances that work off what waits at the end, if there are no more."""


class Situation(NamedTuple):
    """A service at a decision, and how it may be scaled."""

    demand: Demand
    memory: F64
    """Of the controller: see `reserve`."""
    series: F64
    """[intervals] load until now."""
    ready: F64
    """[starting] seconds until each serves."""
    busy: float
    """Share of their time that instances have been busy lately."""
    strain: float
    """How much more work there is than abilities say."""
    apart: float
    """Instances' worth that is lost where pools cannot share a fraction of one."""
    own: F64
    """[parts] seconds that the prompts of equal parts of the requests take by themselves."""
    requests: float
    """A second, where the load keeps one instance busy."""
    start_seconds: float
    each: int
    """Steps of an interval."""
    stride: int
    """Intervals between decisions in a future."""
    least: float
    most: float
    change: float
    """Instances that a decision starts or drains at most."""
    loss_rate: float
    """Of an instance, a second."""


@compiled
def followed(net: ReserveNet, begin: Situation, loads: F64, out: F64) -> None:
    """Fill [decisions, 3] with what `learned` must hold, may hold and how far it uses instances.

    `loads`: [steps] of one future.
    """
    past, memory, told = begin.series.size, begin.memory.copy(), np.zeros(TOLD)
    intervals = loads.size // begin.each
    series = np.zeros(past + intervals)
    series[:past] = begin.series
    now = begin.demand
    for interval in range(intervals):
        total = 0.0
        for step in range(begin.each):
            total += loads[interval * begin.each + step]
        series[past + interval] = total / begin.each
        if (interval + 1) % begin.stride != 0:
            continue
        decision = (interval + 1) // begin.stride - 1
        if decision >= out.shape[0]:
            return
        # Nobody ends and none is missing: what becomes of promises and instances depends on the candidate.
        memory[M_EXPECTED] = 0.0
        demand = Demand(
            now.steps,
            now.now + (interval + 1) * now.interval,
            now.interval,
            now.active,
            now.coming,
            0.0,
            0.0,
            0.0,
            1.0,
            0.0,
            now.life,
            now.caution,
            now.patience,
            now.pools,
            now.models,
            now.apart,
        )
        end = past + interval + 1
        must, may = wanted_total(net, series[max(end - max(past, _HISTORY), 0) : end], demand, memory, told)
        out[decision, 0], out[decision, 1], out[decision, 2] = float(must), float(may), told[7]


@compiled
def play_candidate(
    begin: Situation, loads: F64, losses: F64, wanted: F64, totals: tuple[float, float]
) -> tuple[float, float]:
    """(instance-seconds that are paid, requests that are missed) where so many are ordered now.

    `totals`: that number, and what `learned` would hold; how far apart they are, they stay.

    `loads`, `losses`: [steps] of one future; `wanted`: [decisions, 3] from `followed`.
    """
    steps = loads.size
    starts = max(round(begin.start_seconds / STEP), 1)
    due = np.zeros(steps + 1)
    for place in range(begin.ready.size):
        due[int(min(max(begin.ready[place], 0.0) / STEP, float(steps)))] += 1.0
    active, coming = begin.demand.active, begin.demand.coming
    queue, busy = begin.demand.backlog * begin.strain, begin.busy
    paid, missed = 0.0, 0.0
    target, beside = totals[0], totals[0] - totals[1]
    every = begin.each * begin.stride
    for step in range(steps):
        if step % every == 0:
            if step > 0:
                decision = step // every - 1
                must, may, use = wanted[decision, 0], wanted[decision, 1], wanted[decision, 2]
                spare = (
                    max((active - begin.apart) * use - loads[step - 1] * begin.strain, 0.0)
                    * begin.start_seconds
                )
                more = beside + np.ceil(max(queue - spare, 0.0) / _CLEAR_SECONDS)
                target = must + more if must + more > coming else min(coming, may + more)
                target = min(max(target, coming - begin.change), coming + begin.change)
                target = min(max(target, min(begin.least, coming)), max(begin.most, coming))
            if target > coming:
                due[min(step + starts, steps)] += target - coming
                coming = target
            elif target < coming:
                fewer = coming - target
                # Those that start are given up first, the youngest first, as the simulator does.
                place = steps
                while place >= step and fewer > 0.0 and coming > active:
                    given_up = min(due[place], fewer)
                    due[place] -= given_up
                    coming -= given_up
                    fewer -= given_up
                    place -= 1
                drained = min(fewer, max(active - 1.0, 0.0))
                active -= drained
                coming -= drained
                paid += drained * _DRAIN_SECONDS
        active += due[step]
        if losses[step] < active * begin.loss_rate * STEP:
            active -= 1.0
            coming -= 1.0
        work = loads[step] * STEP
        queue, busy, wait = flow(queue, busy, work * begin.strain, active - begin.apart, SERVICE)
        missed += begin.requests * work * (1.0 - kept_share(busy, wait, begin.own, SERVICE))
        paid += coming * STEP
    # What still waits is done after the future, and who comes until it is gone is late. Otherwise, where all
    # are late to the end, the fewest instances would be the cheapest.
    load = loads[max(steps - every, 0) :].mean()
    spare = max((active - begin.apart) * SERVICE.speed - load * begin.strain, _LEAST_SPARE)
    missed += begin.requests * load * queue / spare
    return paid + queue / SERVICE.speed, missed


@compiled
def play_futures(net: ReserveNet, begin: Situation, loads: F64, losses: F64, totals: F64) -> F64:
    """[futures, candidates, 2] what is paid and missed; `loads`, `losses`: [futures, steps].

    `totals`: [candidates, 2] instances that are ordered, and what `learned` would hold.
    """
    futures, steps = loads.shape
    out = np.zeros((futures, len(totals), 2))
    decisions = max(steps // (begin.each * begin.stride), 1)
    wanted = np.zeros((decisions, 3))
    for future in range(futures):
        followed(net, begin, loads[future], wanted)
        for place in range(len(totals)):
            pair = (totals[place, 0], totals[place, 1])
            paid, missed = play_candidate(begin, loads[future], losses[future], wanted, pair)
            out[future, place, PAID], out[future, place, MISSED] = paid, missed
    return out
