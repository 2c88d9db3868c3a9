"""What a container's status in CRI says, in the words of a `Backend`."""

from __future__ import annotations

import time
from typing import Any

from proreus.engine.runtimes.backend import KILLED, UNKNOWN_END, ContainerExit, Launched
from proreus.engine.runtimes.containerd import cri_pb2 as cri

_MAY_HAVE_RUN = ("failed to start containerd task", "failed to update container")


def came_to_nothing(status: Any) -> bool:
    """Whether its command never ran. `launch` removes what could not be started, so this was left by an agent
    that was killed: containerd then calls the start off, with another message for each moment that it may be
    at. From the start of the task on the command may have run for a moment: that is an end, and the pod's
    restart policy says whether it runs again."""
    called_off = status.reason == "StartError" and not status.started_at
    return called_off and not status.message.startswith(_MAY_HAVE_RUN)


def launched(status: Any) -> Launched:
    """The attempt that it tells of."""
    return Launched(status.id, status.started_at / 1e9, ended(status), status.image_ref)


def ended(status: Any) -> ContainerExit | None:
    """How it ended; None: it has not."""
    if status.state in (cri.CONTAINER_RUNNING, cri.CONTAINER_CREATED):
        return None
    finished = status.finished_at / 1e9 or time.time()
    if status.state == cri.CONTAINER_UNKNOWN:
        return ContainerExit(KILLED, UNKNOWN_END, status.message, finished)
    reason = status.reason or ("Completed" if status.exit_code == 0 else "Error")
    return ContainerExit(status.exit_code, reason, status.message, finished)
