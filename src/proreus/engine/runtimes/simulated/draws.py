"""What is drawn for a pretended container: a function of the seed and of who it is, and of nothing else.

So two runs with one seed agree whatever the order of events, and a runtime that has lost its memory draws the
same again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from proreus.engine.runtimes.simulated.scripts import ToldEnd, told_end
from proreus.kube.owners import DURATION
from proreus.model.resources import parse_quantity

START_LATENCY = "proreus.io/start-latency"
STOP_LATENCY = "proreus.io/stop-latency"
READY_AFTER = "proreus.io/ready-after"
EXIT_CODE = "proreus.io/exit-code"
FAILURE_RATE = "proreus.io/failure-rate"
USE_CPU = "proreus.io/use-cpu"
USE_MEMORY = "proreus.io/use-memory"

_NORMAL = NormalDist()
_UNSTATED_CPU, _UNSTATED_MEMORY = 100, 200 * 1024 * 1024
"""What a container that asks for nothing uses at most; the scheduler's own guess."""
_MOST_WRITTEN, _MOST_TRAFFIC = 64 * 1024 * 1024, 1_000_000
_MOST_SECONDS = 10 * 365 * 86400.0


class BadAnnotation(ValueError):
    """An annotation that cannot be read."""


@dataclass(frozen=True)
class Habits:
    """How pods behave that do not say."""

    seed: int = 0
    start_latency: float = 0.6
    """The median, in seconds, of a log-normal distribution, as the others."""
    start_spread: float = 0.4
    """The standard deviation of the logarithm."""
    stop_latency: float = 0.3
    duration: float = 30.0
    """Of pods that are to end (restartPolicy other than Always); those of services run until stopped."""
    duration_spread: float = 0.8
    failure_rate: float = 0.0
    """The share of attempts that end with exit code 1."""


USUAL = Habits()


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """What one attempt at a container will come to."""

    duration: float
    """Seconds from its start to its end by itself; infinite for a service."""
    exit_code: int
    ready_after: float
    cpu: int
    memory: int
    disk: int = 0
    """Bytes that it has written."""
    received: int = 0
    """Bytes a second."""
    sent: int = 0


def unit(*who: object) -> float:
    """A number between 0 and 1 (both excluded) that belongs to `who`."""
    digest = hashlib.blake2b("\0".join(map(str, who)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) + 0.5) / 2**64


def draw_start(habits: Habits, pod: Mapping[str, Any]) -> float:
    """Seconds from the order to the containers' start."""
    stated = _seconds(pod, START_LATENCY)
    if stated is not None:
        return stated
    return _log_normal(habits.start_latency, habits.start_spread, habits.seed, _uid(pod), "start")


def draw_stop(habits: Habits, pod: Mapping[str, Any]) -> float:
    """Seconds from the first signal to the containers' end."""
    stated = _seconds(pod, STOP_LATENCY)
    if stated is not None:
        return stated
    return _log_normal(habits.stop_latency, habits.start_spread, habits.seed, _uid(pod), "stop")


def draw_plan(
    habits: Habits, pod: Mapping[str, Any], container: Mapping[str, Any], attempt: int
) -> SimulatedPlan:
    """What this attempt comes to."""
    who = (habits.seed, _uid(pod), container["name"], attempt)
    cpu, memory = _use(pod, container)
    rate = _number(pod, FAILURE_RATE)
    fails = unit(*who, "fails") < (habits.failure_rate if rate is None else rate)
    exit_code = _number(pod, EXIT_CODE)
    if exit_code is not None and exit_code > 255:
        raise BadAnnotation(f"annotation {EXIT_CODE}: exit codes end at 255")
    end = told_end(pod, container)
    if exit_code is None and end is not None:
        exit_code = end.exit_code or int(fails)
    probe = container.get("readinessProbe") or {}
    ready_after = _seconds(pod, READY_AFTER)
    return SimulatedPlan(
        duration=_duration(habits, pod, end, who),
        exit_code=int(exit_code) if exit_code is not None else int(fails),
        ready_after=float(probe.get("initialDelaySeconds") or 0) if ready_after is None else ready_after,
        cpu=round(cpu * (0.3 + 0.6 * unit(*who, "cpu"))) if cpu is not None else _cpu(pod),
        memory=round(memory * (0.4 + 0.5 * unit(*who, "memory"))) if memory is not None else _memory(pod),
        **_written_and_sent(who),
    )


def _written_and_sent(who: tuple[object, ...]) -> dict[str, int]:
    """Three numbers of one draw: nobody decides by them, and a draw is not for nothing."""
    drawn = int(unit(*who, "traffic") * 2**48)
    shares = [(drawn >> shift & 0xFFFF) / 0xFFFF for shift in (0, 16, 32)]
    return {
        "disk": round(_MOST_WRITTEN * shares[0]),
        "received": round(_MOST_TRAFFIC * shares[1]),
        "sent": round(_MOST_TRAFFIC * shares[2]),
    }


def _duration(habits: Habits, pod: Mapping[str, Any], end: ToldEnd | None, who: tuple[object, ...]) -> float:
    """As its annotation says, as its command sleeps or fails, or drawn."""
    stated = _seconds(pod, DURATION)
    if stated is not None:
        return stated
    if end is not None and (end.seconds or end.exit_code):
        return min(end.seconds, _MOST_SECONDS)
    if (pod["spec"].get("restartPolicy") or "Always") == "Always":
        return math.inf
    return _log_normal(habits.duration, habits.duration_spread, *who, "duration")


def _use(pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """What the draw is a share of; None where an annotation states the use itself."""
    asked = (container.get("resources") or {}).get("requests") or {}
    cpu = parse_quantity(asked["cpu"], scale=1000) if "cpu" in asked else _UNSTATED_CPU
    memory = parse_quantity(asked["memory"]) if "memory" in asked else _UNSTATED_MEMORY
    stated = _annotations(pod)
    return None if USE_CPU in stated else cpu, None if USE_MEMORY in stated else memory


def _cpu(pod: Mapping[str, Any]) -> int:
    return _quantity(pod, USE_CPU, 1000)


def _memory(pod: Mapping[str, Any]) -> int:
    return _quantity(pod, USE_MEMORY, 1)


def _quantity(pod: Mapping[str, Any], annotation: str, scale: int) -> int:
    try:
        return parse_quantity(_annotations(pod)[annotation], scale=scale)
    except ValueError as error:
        raise BadAnnotation(f"annotation {annotation}: {error}") from None


def _seconds(pod: Mapping[str, Any], annotation: str) -> float | None:
    number = _number(pod, annotation)
    return None if number is None else min(number, _MOST_SECONDS)


def _number(pod: Mapping[str, Any], annotation: str) -> float | None:
    written = _annotations(pod).get(annotation)
    if written is None:
        return None
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not number >= 0:  # not a number is not below 0 either
        raise BadAnnotation(f"annotation {annotation}: {str(written)[:64]!r} is not a number of at least 0")
    return number


def _log_normal(median: float, spread: float, *who: object) -> float:
    return median * math.exp(spread * _NORMAL.inv_cdf(unit(*who)))


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod["metadata"].get("annotations") or {}


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])
