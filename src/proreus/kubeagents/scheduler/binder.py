"""Instructions of the core, carried out over an API server: bindings, evictions, conditions, events.

Each is a request of its own, several at once, and each is asked anew whether this process still leads and the
kill switch is off. A binding that may or may not have been written is looked up until that is known: the API
server gives a pod a node once, so nothing else can go wrong.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, assert_never

from proreus.engine.objects.conditions import Condition
from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.kinds import POD
from proreus.engine.scheduler.announcements import Announcements, waits
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    Complain,
    DelayPod,
    Instruction,
    InstructionFailed,
    PodRef,
    PreemptFor,
    RejectPod,
)
from proreus.kubeagents.scheduler.event_writer import EventWriter
from proreus.kubeagents.scheduler.volume_binder import VolumeBinder
from proreus.kubeclient.client import DeleteOptions, KubeClient, Object
from proreus.kubeclient.errors import ApiError, Conflict, NotFound, ServerFault, Unreachable
from proreus.kubeclient.resources import PODS
from proreus.model.errors import ProreusError

_ASK_AGAIN = 0.5
_SECOND_LOOK = 2.0
_TELLS_DISRUPTION = (1, 26)
"""Since then a victim is told by whom it was disturbed."""
_log = logging.getLogger(__name__)
Mandate = tuple[int, int]


@dataclass(frozen=True)
class BinderOptions:
    """How instructions are carried out."""

    at_once: int = 32
    """Requests under way."""
    version: tuple[int, int] = (1, 36)
    """Of the server."""
    reporter: str = "proreus"


class KubeBinder:
    """Carries out what the core instructs."""

    def __init__(
        self,
        client: KubeClient,
        events: EventWriter,
        current: Callable[[], Mandate | None],
        options: BinderOptions | None = None,
        late: Callable[[InstructionFailed], None] = lambda _: None,
    ) -> None:
        """current: the mandate under which may be written now; pods whose volumes are still to be made are
        bound later, and `late` is told where that fails."""
        self._client, self._events, self._current = client, events, current
        self._options, self._late = options or BinderOptions(), late
        self._volumes = VolumeBinder(client)
        self._waiting: set[asyncio.Task[None]] = set()
        """Pods whose volumes are being made."""
        self._told = Announcements()
        self._room = asyncio.Semaphore(self._options.at_once)
        self._latencies: deque[float] = deque(maxlen=100_000)
        """Seconds of the bindings since somebody last looked."""
        self.conflicts = 0

    def take_latencies(self) -> list[float]:
        """Seconds of the bindings since somebody last looked."""
        taken = list(self._latencies)
        self._latencies.clear()
        return taken

    async def carry_out(
        self, instructions: Sequence[Instruction], mandate: Mandate
    ) -> list[InstructionFailed]:
        """Do it all; what did not come about."""
        at_once = []
        for instruction in instructions:
            if isinstance(instruction, BindPodTo) and instruction.volumes:
                task = asyncio.create_task(self._bind_later(instruction, mandate))
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)
            else:
                at_once.append(self._one(instruction, mandate))
        return [failure for failure in await asyncio.gather(*at_once) if failure is not None]

    async def _bind_later(self, bind: BindPodTo, mandate: Mandate) -> None:
        """Volumes may take minutes: nobody else waits for them."""
        failure = await self._one(bind, mandate)
        if failure is not None:
            self._late(failure)

    async def _one(self, instruction: Instruction, mandate: Mandate) -> InstructionFailed | None:
        failure: InstructionFailed | None = None
        if not isinstance(instruction, Complain):
            try:
                await self._done(instruction, mandate)
            except Exception as error:  # noqa: BLE001 - no pod stays assumed for ever by a mistake of ours
                if not isinstance(error, ProreusError):
                    _log.exception("%s", instruction.pod.key)
                told_only = isinstance(instruction, DelayPod | RejectPod)
                failure = InstructionFailed(instruction.pod, str(error), told_only)
                if isinstance(instruction, BindPodTo):
                    await self._tell_refused(instruction.pod, error)
        if failure is None:
            for event in self._told.events(instruction):
                self._events.tell(event)
            self._told.remember((instruction,))
        return failure

    async def _tell_refused(self, pod: PodRef, error: Exception) -> None:
        """A binding that somebody forbids: a role, a quota, a webhook. It is tried again, and says why."""
        lost = isinstance(error, _NotOurs | Conflict | NotFound | Unreachable | ServerFault)
        if lost or not isinstance(error, ProreusError):
            return  # another has it, it is gone, nobody could be asked, or the log has it
        message = f"binding rejected: {error}"
        about = {"metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}}
        self._events.tell(RecordEvent(POD, about, "Warning", "FailedScheduling", message))
        try:
            await self._status(pod, Condition("PodScheduled", "False", "SchedulerError", message), None)
        except ProreusError as untold:
            _log.info("%s could not be told why it waits: %s", pod.key, untold)

    async def _done(self, instruction: Instruction, mandate: Mandate) -> None:
        def check() -> None:
            if self._current() != mandate:
                raise _NotOurs("this process may write no more")

        match instruction:
            case BindPodTo():
                if instruction.volumes:
                    await self._volumes.prepare(instruction.volumes, instruction.node, check)
                async with self._room:
                    check()
                    await self._bind(instruction)
            case PreemptFor(pod=pod, node=node, victims=victims, told=message):
                for ref in instruction.no_longer_nominated:
                    await self._write(check, partial(self._status, ref, None, ""))
                await self._write(check, partial(self._status, pod, waits(message), node))
                for victim in victims:
                    await self._write(check, partial(self._evict, victim))
            case DelayPod(pod=pod, told=message, clear_nomination=clear):
                if clear or not self._told.repeats(instruction):
                    await self._write(
                        check, partial(self._status, pod, waits(message), "" if clear else None)
                    )
            case RejectPod(pod=pod, told=message):
                if not self._told.repeats(instruction):
                    condition = waits(message, "SchedulerRejected")
                    await self._write(check, partial(self._status, pod, condition, ""))
            case Complain():
                return
            case _:
                assert_never(instruction)

    async def _write(self, check: Callable[[], None], ask: Callable[[], Awaitable[None]]) -> None:
        async with self._room:
            check()
            try:
                await ask()
            except NotFound:
                return  # whom it was about is gone

    async def _bind(self, bind: BindPodTo) -> None:
        pod = bind.pod
        began = time.monotonic()
        try:
            await self._client.bind((pod.namespace, pod.name, pod.uid), bind.node, bind.annotations)
        except (Unreachable, ServerFault, Conflict) as error:
            self.conflicts += isinstance(error, Conflict)
            if isinstance(error, Unreachable) and not error.sent:
                raise
            # A server that only did not answer in time may still be at it: a second look, a while later.
            late = not isinstance(error, Conflict)
            if not await self._is_on(pod, bind.node):
                await asyncio.sleep(_SECOND_LOOK if late else 0.0)
                if not late or not await self._is_on(pod, bind.node):
                    raise
        self._latencies.append(time.monotonic() - began)

    async def _is_on(self, pod: PodRef, node: str) -> bool:
        """Whether the pod is on that node all the same: asked until somebody can say so."""
        while True:
            try:
                obj = await self._client.get(PODS, pod.name, pod.namespace)
            except NotFound:
                return False
            except (Unreachable, ServerFault) as error:
                _log.info("whether %s is bound is not known: %s", pod.key, error)
                await asyncio.sleep(_ASK_AGAIN)
            else:
                same = obj["metadata"].get("uid") == pod.uid
                return bool(same and obj["spec"].get("nodeName") == node)

    async def _evict(self, victim: PodRef) -> None:
        """Gone with its own grace, and only if it is still the one that was meant."""
        if self._options.version >= _TELLS_DISRUPTION:
            by = f"{self._options.reporter}: preempting to accommodate a higher priority pod"
            disturbed = Condition("DisruptionTarget", "True", "PreemptionByScheduler", by)
            await self._status(victim, disturbed, None)
        await self._client.delete(PODS, victim.name, victim.namespace, DeleteOptions(uid=victim.uid))

    async def _status(self, pod: PodRef, condition: Condition | None, nominated: str | None) -> None:
        """Parts of a pod's status; nominated: None leaves it as it is."""
        status: dict[str, Any] = {}
        if condition is not None:
            written: Object = {"type": condition.type, "status": condition.status}
            written["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            written |= {"reason": condition.reason, "message": condition.message}
            status["conditions"] = [written]
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        change = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._client.patch(
                PODS, (pod.namespace, pod.name), change, subresource="status", kind="strategic"
            )
        except Conflict:
            return  # another pod of the same name


class _NotOurs(ApiError):
    """Another may lead by now, or the switch is on."""
