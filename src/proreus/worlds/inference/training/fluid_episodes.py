"""Episodes of the fluid model: a controller over a load in a millisecond; a search plays thousands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_unit
from proreus.worlds.inference.encoding.load_history import SIZE as LOAD_FEATURES
from proreus.worlds.inference.policies.reserve import (
    M_EXPECTED,
    M_STRAIN,
    MEMORY,
    RING,
    TOLD,
    Demand,
    Foreseen,
    ReserveNet,
    foresee,
    total_for,
)
from proreus.worlds.inference.state.fluid import (
    STEP,
    Service,
    first_in_time,
    flow,
    kept_share,
    tokens_in_time,
)
from proreus.worlds.inference.state.quantile_forecast import QUANTILES, TARGETS

_MOST = 128
_HISTORY = 360
_STEPS = 5.0
"""Instances that are started or drained at once."""


class Setting(NamedTuple):
    """A service, and what comes to it."""

    start_seconds: float
    interval: float
    first: float
    """Instances at the beginning."""
    least: float
    most: float
    speed: float
    """What instances really do, over what is believed."""
    loss_rate: float
    """Of each instance, a second."""
    life: float
    """That is known of them; 0: nothing."""
    pools: float
    models: float
    apart: float
    """As `Demand.apart`."""
    seed: float


class FluidLoad(NamedTuple):
    """What comes, in steps of two seconds."""

    work: F64
    """[steps] instance-seconds"""
    requests: F64
    """[steps] by the weights of their classes"""
    urgent: F64
    """[steps] the share that cannot wait"""
    own: F64
    """[parts] seconds that the prompts of equal parts of the requests take by themselves"""


class ForeseenLoad(NamedTuple):
    """What is forecast at every decision: it does not depend on what is held, and is found once for all."""

    level: F64
    """[decisions]"""
    features: F64
    """[decisions, features]"""
    quantiles: F64
    """[decisions, targets, quantiles]"""


@compiled
def load_by_interval(work: F64, interval: float) -> F64:
    """[intervals] instances that a load keeps busy, as a controller sees it."""
    each = int(interval / STEP)
    loads = np.zeros(work.size // each)
    for place in range(loads.size):
        loads[place] = work[place * each : (place + 1) * each].sum() / interval
    return loads


@compiled
def foresee_load(net: ReserveNet, work: F64, setting: Setting) -> ForeseenLoad:
    """At the end of every interval."""
    series = load_by_interval(work, setting.interval)
    decisions = series.size
    level = np.zeros(decisions)
    features = np.zeros((decisions, LOAD_FEATURES))
    quantiles = np.zeros((decisions, len(TARGETS), len(QUANTILES)))
    steps = (setting.start_seconds + setting.interval) / setting.interval
    for place in range(decisions):
        known = series[max(place + 1 - _HISTORY, 0) : place + 1]
        level[place] = foresee(net, known, steps, features[place], quantiles[place])
    return ForeseenLoad(level, features, quantiles)


@compiled
def play_fluid(
    net: ReserveNet, load: FluidLoad, setting: Setting, service: Service, foreseen: ForeseenLoad
) -> tuple[float, float, int]:
    """(instance-seconds that were paid, share of requests that was served as promised, turns from growing to
    shrinking or back)."""
    work, requests, urgent = load.work, load.requests, load.urgent
    chance = np.zeros(1, dtype=np.uint64)
    chance[0] = np.uint64(setting.seed)
    each = int(setting.interval / STEP)
    # Instances that start are ready in the order in which they were started: a ring of moments.
    ready, head, starting = np.zeros(_MOST), 0, 0
    active, coming = setting.first, setting.first
    memory, told = np.zeros(MEMORY), np.zeros(TOLD)
    memory[M_STRAIN] = 1.0
    for place in range(RING, MEMORY, 2):
        memory[place] = -1e18
    queue, busy, wait = 0.0, 0.0, 0.0
    # What is late whatever is held a controller finds out by itself, and leaves out.
    possible = max(kept_share(0.0, 0.0, load.own, service), 0.1)
    calm = first_in_time(0.0, load.own, service)
    paid, kept, asked = 0.0, 0.0, 0.0
    met_now, ended_now, way, turns = 0.0, 0.0, 0.0, 0
    steps = (setting.start_seconds + setting.interval) / setting.interval
    for step in range(work.size):
        now = step * STEP
        while starting > 0 and ready[head] <= now:
            head, starting = (head + 1) % _MOST, starting - 1
            active += 1.0
        if setting.loss_rate > 0.0:
            for _ in range(int(active)):
                if next_unit(chance) < setting.loss_rate * STEP:
                    active -= 1.0
                    coming -= 1.0
        queue, busy, wait = flow(queue, busy, work[step], active * setting.speed, service)
        # Nobody waits at most moments: what that comes to is known.
        first = calm if wait == 0.0 else first_in_time(wait, load.own, service)
        share = tokens_in_time(busy, service) * first
        patient = 1.0 if wait < service.patience else 0.0
        met = requests[step] * (urgent[step] * share + (1.0 - urgent[step]) * patient)
        kept += met
        asked += requests[step]
        met_now += met
        ended_now += requests[step]
        paid += coming * STEP
        if (step + 1) % each == 0:
            moment, decision = (step + 1) * STEP, (step + 1) // each - 1
            readies = 0.0
            for place in range(starting):
                left = ready[(head + place) % _MOST] - moment
                readies += max(setting.start_seconds - left, 0.0)
            demand = Demand(
                steps,
                moment,
                setting.interval,
                active,
                coming,
                readies,
                queue,
                ended_now,
                min(met_now / max(ended_now, 1e-9) / possible, 1.0),
                wait,
                setting.life,
                1.0,
                1.0,
                setting.pools,
                setting.models,
                setting.apart,
            )
            met_now, ended_now = 0.0, 0.0
            seen = Foreseen(
                foreseen.level[decision], foreseen.features[decision], foreseen.quantiles[decision]
            )
            must, may = total_for(net, seen, demand, memory, told)
            target = coming
            if must > coming:
                target = float(must)
            elif may < coming:
                target = float(may)
            target = min(max(target, setting.least), setting.most)
            change = min(max(target - coming, -_STEPS), _STEPS)
            if change != 0.0:
                if change * way < 0.0:
                    turns += 1
                way = change
            while change > 0.0 and starting < _MOST:
                ready[(head + starting) % _MOST] = moment + setting.start_seconds
                starting += 1
                change -= 1.0
                coming += 1.0
            while change < 0.0 and starting > 0:  # who is furthest from serving goes first
                starting -= 1
                change += 1.0
                coming -= 1.0
            if change < 0.0:
                drains = min(-change, max(active - 1.0, 0.0))
                active -= drains
                coming -= drains
                paid += drains * 10.0
            memory[M_EXPECTED] = active
    return paid, kept / max(asked, 1e-9), turns
