"""Containers that ran when their node was last heard of, and of which its runtime knows nothing any more.

Somebody has taken them away: `proreus down`, or the machine was started anew. Where the pod says that it is
never to run twice, they have ended, and nobody knows how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from proreus.engine.objects.metadata import Object
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes.protocol import ContainerReport, Phase

_EXIT_CODE = 137
_REASON = "ContainerStatusUnknown"
_MESSAGE = "The container could not be located when the node began. The container used to be Running"


def lost_containers(pod: Object, now: float) -> tuple[ContainerReport, ...]:
    """How they ended; empty where none had begun, or the pod may run again."""
    status = pod.get("status") or {}
    if pod["spec"].get("restartPolicy") != "Never" or status.get("phase") != "Running":
        return ()
    return tuple(
        lost_container(container_status, now) for container_status in status.get("containerStatuses") or ()
    )


def lost_container(status: Mapping[str, Any], now: float) -> ContainerReport:
    """How a container ended whose status was last told so."""
    return structs.replace(_ended(status, now), image=str(status.get("imageID") or ""))


def _ended(status: Mapping[str, Any], now: float) -> ContainerReport:
    name, state = str(status["name"]), status.get("state") or {}
    attempt, id = int(status.get("restartCount") or 0), str(status.get("containerID") or "")
    over = state.get("terminated")
    if over:
        return ContainerReport(
            name,
            Phase.EXITED,
            attempt,
            id,
            _moment(over.get("startedAt"), now),
            _moment(over.get("finishedAt"), now),
            int(over.get("exitCode") or 0),
            str(over.get("reason") or ""),
            str(over.get("message") or ""),
        )
    began = _moment((state.get("running") or {}).get("startedAt"), now)
    finished = max(began, now)  # all that is known of an end may be that the next attempt was ordered since
    return ContainerReport(name, Phase.EXITED, attempt, id, began, finished, _EXIT_CODE, _REASON, _MESSAGE)


def _moment(text: str | None, otherwise: float) -> float:
    return parse_timestamp(text) if text else otherwise
