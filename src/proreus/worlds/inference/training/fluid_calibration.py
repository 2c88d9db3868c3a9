"""The fluid model fitted to a scenario: how fast instances are there, by what came of controllers.

What a search begins with is played there, and the rules that it is held against are played anyway. Their
instances, moment by moment, go through the fluid model once more; the speed at which it misses about as many
promises as the simulator is the scenario's.
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
"""Share of requests missed below which nobody tells controllers apart."""
_OF_RULES, _SERVED = 0.2, 0.9
"""What a rule's runs count where those of what is searched for count one, and the share of promises that it
must keep for them to count at all: in a collapse other things decide."""
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


def fitted_speed(
    loads: Sequence[FluidLoad],
    own: Sequence[SimulatedRun],
    rules: Sequence[Sequence[SimulatedRun]],
    interval: float,
) -> float:
    """Of instances, over what is believed; `own`: runs of the controller that a search begins with, by load,
    as are those of each rule.

    Means over all loads, since few runs miss most of what is missed. Who waits and drains as the searched
    controller does says more of what it will miss than rules that have other instances at other times.
    """
    each = max(round(interval / STEP), 1)
    told = [runs for runs in rules if float(np.mean([run.kept for run in runs])) >= _SERVED]
    groups = [(1.0, own), *((_OF_RULES, runs) for runs in told)]
    best, speed = np.inf, 1.0
    for tried in _SPEEDS.tolist():
        off = (np.log(tried) / _PRIOR) ** 2 * 0.1
        for weight, runs in groups:
            exact = np.mean([1.0 - run.kept for run in runs])
            fluid = np.mean(
                [
                    1.0 - kept_along(load, run.active, each, tried, SERVICE)
                    for load, run in zip(loads, runs, strict=True)
                ]
            )
            off += weight * float(np.log((fluid + _FLOOR) / (exact + _FLOOR))) ** 2
        if off < best:
            best, speed = off, tried
    return speed
