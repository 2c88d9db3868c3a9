"""What is old enough to be forgotten: events, and pods that ended when there are too many of them."""

from __future__ import annotations

from collections.abc import Iterable

from proreus.engine.controllers.instructions import DeleteObject, Instruction
from proreus.engine.controllers.workloads.pods import phase_of
from proreus.engine.objects.kinds import EVENT, POD
from proreus.engine.objects.metadata import Object, created, deleting, name_of
from proreus.engine.objects.timestamps import parse_timestamp

EVENT_SECONDS = 3600.0
"""So long after it was last seen an event is kept, and some minutes more."""
MOST_ENDED_PODS = 12_500


def old_events(events: Iterable[Object], now: float, keep: float = EVENT_SECONDS) -> list[Instruction]:
    """Events that nobody saw again for so long."""
    return [DeleteObject(EVENT, event) for event in events if _last(event) + keep < now]


def oldest_event(events: Iterable[Object], now: float, keep: float = EVENT_SECONDS) -> float:
    """When the oldest of those that are not too old was last seen; now, where there is none."""
    return min((seen for event in events if (seen := _last(event)) + keep >= now), default=now)


def surplus_pods(pods: Iterable[Object], most: int = MOST_ENDED_PODS) -> list[Instruction]:
    """Pods that ended, the oldest first, beyond the number that is kept."""
    ended = [pod for pod in pods if phase_of(pod) in ("Succeeded", "Failed") and not deleting(pod)]
    if len(ended) <= most:
        return []
    ended.sort(key=lambda pod: (created(pod), name_of(pod)))
    return [DeleteObject(POD, pod, grace=0) for pod in ended[: len(ended) - most]]


def _last(event: Object) -> float:
    moments = [event.get("lastTimestamp"), event.get("eventTime"), event["metadata"]["creationTimestamp"]]
    return max(parse_timestamp(moment) for moment in moments if moment)
