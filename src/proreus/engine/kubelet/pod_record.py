"""What a runtime remembers of a pod that it was given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from msgspec import structs

from proreus.engine.kubelet.termination import Termination
from proreus.engine.runtimes.backend import ContainerExit
from proreus.engine.runtimes.protocol import ContainerReport, Phase, Pod


@dataclass
class PodRecord:
    """A pod in this runtime."""

    pod: Pod
    address: str = ""
    failure: str = ""
    overfull: str = ""
    """Which of its own bounds it has gone beyond."""
    reports: dict[str, ContainerReport] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The backend's words for the last attempts that were launched."""
    earlier: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Attempt and id before the last, for `logs --previous`."""
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    endings: dict[str, Termination] = field(default_factory=dict)
    """Of the attempts that run."""
    greetings: dict[str, asyncio.Event] = field(default_factory=dict)
    """Of the containers that begin with a hook: whether whoever is listed after them may begin."""
    gpus: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids of those that each of its containers has."""
    doom: dict[str, str] = field(default_factory=dict)
    """Why a container is being killed: the message of a probe or hook."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    stop_by: float = 0.0
    stand: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def uid(self) -> str:
        """The pod's."""
        return str(self.pod["metadata"]["uid"])


def ended_report(report: ContainerReport, ended: ContainerExit) -> ContainerReport:
    """What is told of an attempt that has ended so."""
    started = report.started or ended.finished
    return structs.replace(
        report,
        phase=Phase.EXITED,
        started=started,
        finished=max(started, ended.finished),  # containerd notes the start of what ends at once too late
        exit_code=ended.code,
        reason=ended.reason,
        message=ended.message,
        ready=False,
    )
