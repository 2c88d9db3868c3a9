"""What people are told of a pod's containers: events in a kubelet's words, each thing once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from proreus.engine.kubelet.restarts import Due
from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.metadata import Object, key_of, uid_of
from proreus.engine.runtimes.protocol import Phase, PodReport


def pod_event(pod: Object, type_: str, reason: str, message: str, container: str = "") -> RecordEvent:
    """What happened to the pod, or to that container of it, as its node tells it."""
    spec, field_path = pod["spec"], ""
    if container:
        first = any(init["name"] == container for init in spec.get("initContainers") or ())
        field_path = f"spec.{'initContainers' if first else 'containers'}{{{container}}}"
    return RecordEvent(POD, pod, type_, reason, message, field_path, str(spec.get("nodeName") or ""))


@dataclass(slots=True)
class ContainerEvents:
    """What was told of a pod so far; one for each pod."""

    _said: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each container the last attempt, and how many of its notices."""
    _waits: dict[str, int] = field(default_factory=dict)
    """Of each container the attempt that it was last told to wait for."""

    def news(self, pod: Object, report: PodReport) -> Iterator[RecordEvent]:
        """Whatever the report has that was not told yet."""
        for container in report.containers:
            if not container.notices:
                continue
            attempt, said = self._said.get(container.name, (container.attempt, 0))
            if attempt != container.attempt:
                said = 0
            self._said[container.name] = (container.attempt, container.forgotten + len(container.notices))
            for notice in container.notices[max(0, said - container.forgotten) :]:
                yield pod_event(pod, notice.type, notice.reason, notice.message, container.name)

    def pauses(self, pod: Object, waits: Iterable[Due]) -> Iterator[RecordEvent]:
        """Containers that crashed, and wait before they are tried again."""
        for due in waits:
            if due.pause and self._waits.get(due.container) != due.attempt:
                self._waits[due.container] = due.attempt
                namespace, name = key_of(pod)
                message = (
                    f"Back-off restarting failed container {due.container}"
                    f" in pod {name}_{namespace}({uid_of(pod)})"
                )
                yield pod_event(pod, "Warning", "BackOff", message, due.container)


def killings(pod: Object, report: PodReport | None) -> Iterator[RecordEvent]:
    """Of the containers that run, now that the pod is to end."""
    for container in report.containers if report is not None else ():
        if container.phase is Phase.RUNNING:
            yield pod_event(pod, "Normal", "Killing", f"Stopping container {container.name}", container.name)
