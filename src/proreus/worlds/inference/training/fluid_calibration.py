"""The fluid model fitted to a scenario: how fast instances are there, by what rules came to in the simulator.

The rules that a search is held against are played anyway. Their instances, moment by moment, go through the
fluid model once more; the speed at which it misses about as many promises as the simulator is the scenario's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.policies.catalogue import AnyPolicy
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.state.fluid import SERVICE, STEP, Service, flow, kept_share
from proreus.worlds.inference.training.fluid_episodes import FluidLoad

_SPEEDS = np.geomspace(0.5, 1.25, 93)
_FLOOR = 0.003
"""Share of requests missed below which nobody tells runs apart."""
_SERVED, _ENOUGH = 0.9, 8
"""Share of promises from which a run says what instances do where a controller is any good, if so many runs
are like it: in a collapse other things decide."""
_PRIOR = 0.3
"""Of the logarithm of a speed, where promises are kept at any."""


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """What a policy came to in the simulator."""

    cost: float
    """Weighed GPU-hours."""
    kept: float
    """Share of requests served as promised."""
    active: F64
    """[intervals] instances that served."""
    gpus: float
    """Of an instance, mean over all that were held."""


def simulated(scenario: InferenceScenario, seed: int, policy: AnyPolicy) -> SimulatedRun:
    """A run to its end."""
    run, player = scenario.start(scenario.load(seed), seed), policy.fresh(seed)
    active, held = list[float](), 0.0
    while (seen := run.next_decision()) is not None:
        serving = float(sum(pool.active for pool in seen.pools))
        active += [serving, serving] if not active else [serving]
        run.apply(player.decide(seen))
        held += float(sum(pool.coming for pool in seen.pools)) * seen.interval
    measures = run.outcome().measures
    return SimulatedRun(
        cost=measures["weighed_gpu_hours"],
        kept=measures["slo_attainment"] / 100.0,
        active=np.array(active or [1.0]),
        gpus=measures["gpu_hours"] * 3_600.0 / max(held, 1.0),
    )


@compiled
def kept_along(load: FluidLoad, active: F64, each: int, speed: float, service: Service) -> float:
    """Share of requests served as promised by so many instances; `each`: steps of an interval."""
    queue, busy, wait, kept, asked = 0.0, 0.0, 0.0, 0.0, 0.0
    for step in range(load.work.size):
        instances = active[min(step // each, active.size - 1)]
        queue, busy, wait = flow(queue, busy, load.work[step], instances * speed, service)
        share = kept_share(busy, wait, load.own, service)
        patient = 1.0 if wait < service.patience else 0.0
        kept += load.requests[step] * (load.urgent[step] * share + (1.0 - load.urgent[step]) * patient)
        asked += load.requests[step]
    return kept / max(asked, 1e-9)


def fitted_speed(loads: Sequence[FluidLoad], runs: Sequence[SimulatedRun], interval: float) -> float:
    """Of instances, over what is believed; loads and runs by turns. Twice as many missed weighs the same
    whether few were or many."""
    served = [place for place, run in enumerate(runs) if run.kept >= _SERVED]
    if len(served) >= _ENOUGH:
        loads, runs = [loads[place] for place in served], [runs[place] for place in served]
    each = max(round(interval / STEP), 1)
    exact = np.log(np.array([1.0 - run.kept for run in runs]) + _FLOOR)
    best, speed = np.inf, 1.0
    for tried in _SPEEDS.tolist():
        missed = [
            1.0 - kept_along(load, run.active, each, tried, SERVICE)
            for load, run in zip(loads, runs, strict=True)
        ]
        off = float(np.square(np.log(np.array(missed) + _FLOOR) - exact).mean())
        off += (np.log(tried) / _PRIOR) ** 2 * 0.1
        if off < best:
            best, speed = off, tried
    return speed
