"""What is told of instructions: events on their pods, and a condition of those that wait.

What was said of a pod that waits is not said again while it is the same. Called by whoever carries
instructions out, over a registry or over an API server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from proreus.engine.objects.conditions import Condition
from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.kinds import BY_KIND, POD
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    Complain,
    DelayPod,
    Instruction,
    PodRef,
    PreemptFor,
    RejectPod,
)

_MOST_TOLD = 100_000


class Announcements:
    """Remembers what was last said of each pod that waits."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def repeats(self, instruction: DelayPod | RejectPod) -> bool:
        """Whether the pod was told just that before."""
        return self._told.get(instruction.pod.uid) == instruction.told

    def events(self, instruction: Instruction) -> list[RecordEvent]:
        """What is told of it when it is done."""
        match instruction:
            case BindPodTo(pod=pod, told=message):
                return [_pod_event(pod, "Normal", "Scheduled", message)]
            case PreemptFor(pod=pod, node=node, victims=victims, told=message):
                why = f"Preempted by pod {pod.uid} on node {node}"
                return [
                    _pod_event(pod, "Warning", "FailedScheduling", message),
                    *(_pod_event(victim, "Normal", "Preempted", why) for victim in victims),
                ]
            case DelayPod(pod=pod, told=message):
                if self.repeats(instruction):
                    return []
                return [_pod_event(pod, "Warning", "FailedScheduling", message)]
            case RejectPod(pod=pod, told=message):
                return [_pod_event(pod, "Warning", "Rejected", message)]
            case Complain(object=obj, told=message, reason=reason):
                return [RecordEvent(BY_KIND[obj["apiVersion"], obj["kind"]], obj, "Warning", reason, message)]
            case _:
                assert_never(instruction)

    def remember(self, instructions: Sequence[Instruction]) -> None:
        """These were carried out."""
        if len(self._told) > _MOST_TOLD:
            self._told.clear()
        for instruction in instructions:
            if isinstance(instruction, DelayPod | RejectPod):
                self._told[instruction.pod.uid] = instruction.told
            elif not isinstance(instruction, Complain):
                self._told.pop(instruction.pod.uid, None)


def waits(message: str, reason: str = "Unschedulable") -> Condition:
    """Of a pod that has no node."""
    return Condition("PodScheduled", "False", reason, message)


def _pod_event(pod: PodRef, type_: str, reason: str, message: str) -> RecordEvent:
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return RecordEvent(POD, {"metadata": metadata}, type_, reason, message)
