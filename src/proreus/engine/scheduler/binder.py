"""Instructions of the core, carried out over the registry: bindings, evictions, conditions, events.

Whatever changes pods is written on the leader's fence. Events are not: nobody acts on them, each has a name
of its own, and they only tell of what the fence let through. What is lost of them is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from proreus.engine.objects.conditions import Condition, with_conditions
from proreus.engine.objects.errors import Fenced, NotFound, StatusError, Unserviceable
from proreus.engine.objects.event_recorder import EventRecorder, EventSeries
from proreus.engine.objects.intents import PREEMPTED, DeletionTerms, Disruption, Intent
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Binding, Registry
from proreus.engine.scheduler.announcements import Announcements, waits
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    Complain,
    DelayPod,
    Instruction,
    InstructionFailed,
    Object,
    PodRef,
    PreemptFor,
    RejectPod,
)
from proreus.engine.store.protocol import Unchanged

_REPORTER = "proreus-scheduler"
_PREEMPTED = Disruption(PREEMPTED, f"{_REPORTER}: preempting to accommodate a higher priority pod")
_ASK_AGAIN = 0.5
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Binder:
    """Carries out what the core instructs."""

    registry: Registry
    clock: Callable[[], float]
    fenced: Callable[[], None]
    """Called where the fence refused a write."""
    events: bool = True
    """Whether Event objects are written."""
    _told: Announcements = field(default_factory=Announcements)
    recorder: EventRecorder = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = EventRecorder(self.registry, _REPORTER, self.clock, EventSeries(), lasting_names=True)

    async def carry_out(
        self, instructions: Sequence[Instruction], fence: Unchanged
    ) -> list[InstructionFailed]:
        """Do it all; what did not come about."""
        binds = [instruction for instruction in instructions if isinstance(instruction, BindPodTo)]
        others = [instruction for instruction in instructions if not isinstance(instruction, BindPodTo)]
        failed = await self._bind(binds, fence) if binds else []
        failed += await self._rest(others, fence) if others else []
        lost = {failure.pod for failure in failed}
        done = [
            instruction
            for instruction in instructions
            if isinstance(instruction, Complain) or instruction.pod not in lost
        ]
        events = [
            self.recorder.due(event) for instruction in done for event in self._told.events(instruction)
        ]
        self._told.remember(done)
        due = [event for event in events if event is not None]
        if self.events and due:
            await self.recorder.commit((), due)
        return failed

    async def _bind(self, binds: Sequence[BindPodTo], fence: Unchanged) -> list[InstructionFailed]:
        intents = [
            self.registry.binding(
                Binding(bind.pod.namespace, bind.pod.name, bind.node, bind.pod.uid, bind.annotations)
            )
            for bind in binds
        ]
        outcomes = await self.registry.commit_each(intents, fence)
        failed = []
        for bind, outcome in zip(binds, outcomes, strict=True):
            if isinstance(outcome, Fenced):
                self.fenced()
            if isinstance(outcome, StatusError) and not await self._done_all_the_same(bind, outcome):
                failed.append(InstructionFailed(bind.pod, outcome.message))
        return failed

    async def _done_all_the_same(self, bind: BindPodTo, refusal: StatusError) -> bool:
        """Whether the store, which could not say so, has bound the pod: asked until it can."""
        if not isinstance(refusal, Unserviceable):
            return False
        while True:
            try:
                pod = await self.registry.get(POD, bind.pod.namespace, bind.pod.name)
            except NotFound:
                return False
            except Unserviceable:
                await asyncio.sleep(_ASK_AGAIN)
            else:
                return bool(pod["spec"].get("nodeName"))

    async def _rest(self, instructions: Sequence[Instruction], fence: Unchanged) -> list[InstructionFailed]:
        """What binds nothing. Of a preemption every part counts, else the pod would wait for nothing; and who
        could not be told why it waits is decided about, and told, again."""
        intents = [
            (instruction, intent)
            for instruction in instructions
            for intent in self._consequences(instruction)
        ]
        failed: dict[PodRef, InstructionFailed] = {}
        outcomes = await self.registry.commit_each([intent for _, intent in intents], fence)
        for (refused, _), outcome in zip(intents, outcomes, strict=True):
            if not isinstance(outcome, StatusError) or isinstance(outcome, NotFound):
                continue
            _log.info("%s", outcome)
            if isinstance(outcome, Fenced):
                self.fenced()
            if not isinstance(refused, Complain):
                told_only = isinstance(refused, DelayPod | RejectPod)
                failed[refused.pod] = InstructionFailed(refused.pod, outcome.message, told_only)
        return list(failed.values())

    def _consequences(self, instruction: Instruction) -> list[Intent]:
        """What an instruction that binds nothing changes in the store."""
        match instruction:
            case PreemptFor(pod=pod, node=node, victims=victims, told=message):
                gone = [
                    self.registry.deleting(
                        POD,
                        victim.namespace,
                        victim.name,
                        DeletionTerms(uid=victim.uid, disruption=_PREEMPTED),
                    )
                    for victim in victims
                ]
                cleared = [self._status(pod_ref, nominated="") for pod_ref in instruction.no_longer_nominated]
                return [*gone, *cleared, self._status(pod, waits(message), nominated=node)]
            case DelayPod(pod=pod, told=message, clear_nomination=clear):
                if self._told.repeats(instruction) and not clear:
                    return []
                return [self._status(pod, waits(message), nominated="" if clear else None)]
            case RejectPod(pod=pod, told=message):
                if self._told.repeats(instruction):
                    return []
                return [self._status(pod, waits(message, "SchedulerRejected"), nominated="")]
            case Complain() | BindPodTo():
                return []
            case _:
                assert_never(instruction)

    def _status(
        self, pod: PodRef, condition: Condition | None = None, *, nominated: str | None = None
    ) -> Intent:
        """Another status of a pod that waits; nominated: None leaves it as it is."""

        def change(obj: Object) -> Object | None:
            if obj["metadata"]["uid"] != pod.uid or obj["spec"].get("nodeName"):
                return None
            before = obj.get("status") or {}
            status: dict[str, Any] = dict(before)
            if condition is not None:
                standing = before.get("conditions") or ()
                status["conditions"] = with_conditions(standing, (condition,), self.clock())
            if nominated:
                status["nominatedNodeName"] = nominated
            elif nominated is not None:
                status.pop("nominatedNodeName", None)
            return {**obj, "status": status}

        return self.registry.editing(POD, pod.namespace, pod.name, change, subresource="status")
