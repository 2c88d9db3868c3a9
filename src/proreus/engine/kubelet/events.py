"""What people are told of a pod's containers: events in a kubelet's words, each thing once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from proreus.engine.kubelet.instructions import RecordPodEvent
from proreus.engine.kubelet.restarts import Due
from proreus.engine.objects.metadata import Object, key_of, uid_of
from proreus.engine.runtimes.protocol import Phase, PodReport


@dataclass(slots=True)
class ContainerEvents:
    """What was told of a pod so far; one for each pod."""

    _said: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each container the last attempt, and how many of its notices."""
    _waits: dict[str, int] = field(default_factory=dict)
    """Of each container the attempt that it was last told to wait for."""

    def news(self, pod: Object, report: PodReport) -> Iterator[RecordPodEvent]:
        """Whatever the report has that was not told yet."""
        for container in report.containers:
            if not container.notices:
                continue
            attempt, said = self._said.get(container.name, (container.attempt, 0))
            if attempt != container.attempt:
                said = 0
            self._said[container.name] = (container.attempt, container.forgotten + len(container.notices))
            for notice in container.notices[max(0, said - container.forgotten) :]:
                yield RecordPodEvent(pod, notice.type, notice.reason, notice.message, container.name)

    def pauses(self, pod: Object, waits: Iterable[Due]) -> Iterator[RecordPodEvent]:
        """Containers that crashed, and wait before they are tried again."""
        for due in waits:
            if due.pause and self._waits.get(due.container) != due.attempt:
                self._waits[due.container] = due.attempt
                namespace, name = key_of(pod)
                message = (
                    f"Back-off restarting failed container {due.container}"
                    f" in pod {name}_{namespace}({uid_of(pod)})"
                )
                yield RecordPodEvent(pod, "Warning", "BackOff", message, due.container)


def killings(pod: Object, report: PodReport | None) -> Iterator[RecordPodEvent]:
    """Of the containers that run, now that the pod is to end."""
    for container in report.containers if report is not None else ():
        if container.phase is Phase.RUNNING:
            yield RecordPodEvent(
                pod, "Normal", "Killing", f"Stopping container {container.name}", container.name
            )
