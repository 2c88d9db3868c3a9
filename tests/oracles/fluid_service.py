"""The fluid model of an LLM service in plain Python: what its kernels must agree with."""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64
from proreus.worlds.inference.state.fluid import STEP, Service
from proreus.worlds.inference.training.fluid_episodes import FluidLoad


def kept_by_hand(load: FluidLoad, active: F64, each: int, speed: float, service: Service) -> float:
    """Share of requests served as promised by so many instances in each interval of `each` steps."""
    queue = busy = kept = 0.0
    for step, (work, requests, urgent) in enumerate(zip(load.work, load.requests, load.urgent, strict=True)):
        room = max(active[min(step // each, len(active) - 1)] * speed, 0.01) * service.speed * STEP
        done = min(queue + work, room)
        queue = queue + work - done
        busy += STEP / service.memory * (done / room - busy)
        wait = queue / (room / STEP)
        tokens = 1.0 / (1.0 + math.exp(min((busy - service.busiest) / service.edge, 50.0)))
        first = [1.0 / (1.0 + math.exp(min((wait + own - service.wait) / 0.3, 50.0))) for own in load.own]
        in_time = tokens * sum(first) / len(first)
        kept += requests * (urgent * in_time + (1.0 - urgent) * (wait < service.patience))
    return float(kept / load.requests.sum())
