"""Episodes of the fluid model: a controller over a load in a millisecond; a search plays thousands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_unit
from proreus.worlds.inference.policies.reserve import (
    M_EXPECTED,
    MEMORY,
    RING,
    TOLD,
    Demand,
    ReserveNet,
    wanted_total,
)
from proreus.worlds.inference.state.fluid import STEP, Service, flow, kept_share

_MOST = 128
_HISTORY = 360


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


@compiled
def play_fluid(net: ReserveNet, load: FluidLoad, setting: Setting, service: Service) -> tuple[float, float]:
    """(instance-seconds that were paid, share of requests that was served as promised)."""
    work, requests, urgent = load.work, load.requests, load.urgent
    chance = np.zeros(1, dtype=np.uint64)
    chance[0] = np.uint64(setting.seed)
    each = int(setting.interval / STEP)
    ready = np.full(_MOST, np.inf)
    active, coming = setting.first, setting.first
    memory, told = np.zeros(MEMORY), np.zeros(TOLD)
    memory[0] = 1.0
    for place in range(RING, MEMORY, 2):
        memory[place] = -1e18
    series = np.zeros(work.size // each + 1)
    queue, busy, wait = 0.0, 0.0, 0.0
    # What is late whatever is held a controller finds out by itself, and leaves out.
    possible = max(kept_share(0.0, 0.0, load.own, service), 0.1)
    paid, kept, asked = 0.0, 0.0, 0.0
    come, met_now, ended_now, decided = 0.0, 0.0, 0.0, 0
    for step in range(work.size):
        now = step * STEP
        for place in range(_MOST):
            if ready[place] <= now:
                ready[place] = np.inf
                active += 1.0
        if setting.loss_rate > 0.0:
            for _ in range(int(active)):
                if next_unit(chance) < setting.loss_rate * STEP:
                    active -= 1.0
                    coming -= 1.0
        queue, busy, wait = flow(queue, busy, work[step], active * setting.speed, service)
        share = kept_share(busy, wait, load.own, service)
        patient = 1.0 if wait < service.patience else 0.0
        met = requests[step] * (urgent[step] * share + (1.0 - urgent[step]) * patient)
        kept += met
        asked += requests[step]
        met_now += met
        ended_now += requests[step]
        paid += coming * STEP
        come += work[step]
        if (step + 1) % each == 0:
            series[decided] = come / setting.interval
            decided += 1
            come = 0.0
            moment = (step + 1) * STEP
            readies = 0.0
            for place in range(_MOST):
                if ready[place] < np.inf:
                    readies += max(setting.start_seconds - (ready[place] - moment), 0.0)
            steps = (setting.start_seconds + setting.interval) / setting.interval
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
            )
            met_now, ended_now = 0.0, 0.0
            must, may = wanted_total(net, series[max(decided - _HISTORY, 0) : decided], demand, memory, told)
            target = coming
            if must > coming:
                target = float(must)
            elif may < coming:
                target = float(may)
            target = min(max(target, setting.least), setting.most)
            change = min(max(target - coming, -5.0), 5.0)
            drains = 0.0
            if change > 0:
                for place in range(_MOST):
                    if change > 0.0 and ready[place] == np.inf:
                        ready[place] = moment + setting.start_seconds
                        change -= 1.0
                        coming += 1.0
            else:
                drains = min(-change, max(active - 1.0, 0.0))
                active -= drains
                coming -= drains
                paid += drains * 10.0
            memory[M_EXPECTED] = active
    return paid, kept / max(asked, 1e-9)
