"""A fluid model of a service: work flows in, instances let it flow out, and what waits too long is late.

Requests are not followed; work is measured in what one instance does in a second. It takes a hundredth of
the simulator's time and is close to it where pools share their instances:
`tests/worlds/inference/test_reserve.py` plays the same loads through both. Prompts that wait make first
tokens late, and instances that are busy all the time with prompts make the tokens beside them late.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled

STEP = 2.0
"""Seconds for which work flows evenly."""


class Service(NamedTuple):
    """How instances serve, fitted to runs of the simulator."""

    speed: float = 1.067
    """What an instance does beyond what its ability says: prompts and tokens share iterations."""
    busiest: float = 0.954
    """Share of time with prompts from which tokens come late, half of them here."""
    edge: float = 0.025
    """How soon all of them do."""
    memory: float = 22.8
    """Seconds over which a request sees how busy instances are."""
    wait: float = 2.46
    """Seconds in the queue from which first tokens come late, half of them here."""
    patience: float = 25.0
    """The same for requests that may wait."""


SERVICE = Service()


@compiled
def tokens_in_time(busy: float, service: Service) -> float:
    """Share of requests whose tokens are not late, where instances are so busy with prompts."""
    return 1.0 / (1.0 + math.exp(min((busy - service.busiest) / service.edge, 50.0)))


@compiled
def first_in_time(wait: float, own: F64, service: Service) -> float:
    """Share of requests whose first tokens are not late; `own`: seconds that their prompts take, by parts."""
    first = 0.0
    for place in range(own.size):
        first += 1.0 / (1.0 + math.exp(min((wait + own[place] - service.wait) / 0.3, 50.0)))
    return first / own.size


@compiled
def kept_share(busy: float, wait: float, own: F64, service: Service) -> float:
    """Of the requests that come now and cannot wait."""
    return tokens_in_time(busy, service) * first_in_time(wait, own, service)


@compiled
def flow(
    queue: float, busy: float, work: float, instances: float, service: Service
) -> tuple[float, float, float]:
    """(queue, how busy, seconds that whoever comes last waits) a step later.

    `work`: in instance-seconds, that comes within the step.
    """
    room = max(instances, 0.01) * service.speed * STEP
    done = min(queue + work, room)
    left = queue + work - done
    share = STEP / service.memory
    return left, busy + share * (done / room - busy), left / (room / STEP)
