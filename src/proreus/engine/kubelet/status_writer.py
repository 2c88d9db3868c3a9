"""What agents have to tell, gathered and written together: the last status of each pod, ends, events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import assert_never

from proreus.engine.kubelet.instructions import FinishDeletion, WriteStatus
from proreus.engine.kubelet.pod_status import merged
from proreus.engine.objects.error_messages import check_preconditions
from proreus.engine.objects.errors import Unserviceable
from proreus.engine.objects.event_recorder import EventRecorder, RecordEvent
from proreus.engine.objects.intents import DeletionTerms, Intent
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.metadata import Object, name_of, namespace_of, uid_of
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import Timers

GATHER_SECONDS = 0.02
"""So long after the first thing to tell the rest is waited for."""
LAZY_SECONDS = 1.0
"""So long a status waits that the next one will probably make needless."""
_RETRY_SECONDS = 0.5
_MOST_AT_ONCE = 1024


@dataclass(slots=True)
class _Waiting:
    order: WriteStatus
    due: float


class StatusWriter:
    def __init__(self, registry: Registry, recorder: EventRecorder, timers: Timers) -> None:
        self._registry, self._recorder, self._timers = registry, recorder, timers
        self._statuses: dict[str, _Waiting] = {}
        self._ends: dict[str, FinishDeletion] = {}
        self._events: list[RecordEvent] = []
        self._something = asyncio.Event()
        self._written: OrderedDict[str, tuple[Object, Object]] = OrderedDict()
        """Of each pod the state on which its last status was planned, and that status; the newest last."""

    def is_echo(self, event: ObjectEvent) -> bool:
        """Whether the change is just the last status that was written here, and nothing else waits for it:
        then whoever told that status has nothing to add."""
        uid = uid_of(event.object)
        standing, status = self._written.pop(uid, (None, None))
        return (
            standing is not None
            and event.previous is standing
            and event.object.get("status") is status
            and uid not in self._statuses
        )

    def take(self, order: WriteStatus | FinishDeletion | RecordEvent) -> None:
        """It will be written."""
        match order:
            case WriteStatus(pod, status, lazy):
                self._take_status(order, pod, status, lazy=lazy)
            case FinishDeletion(pod):
                self._ends[uid_of(pod)] = order
            case RecordEvent():
                event = self._recorder.due(order)
                if event is None:
                    return
                self._events.append(event)
            case _:
                assert_never(order)
        self._something.set()

    def _take_status(self, order: WriteStatus, pod: Object, status: Object, *, lazy: bool) -> None:
        uid, now = uid_of(pod), self._timers.steady()
        if not lazy and merged(pod.get("status") or {}, status, self._timers.wall()) is None:
            return  # the API shows it so already; were it to change, we would be told
        before = self._statuses.get(uid)
        due = now + (LAZY_SECONDS if lazy else 0.0)
        self._statuses[uid] = _Waiting(order, min(due, before.due) if before is not None else due)

    async def run(self) -> None:
        """Write for ever; what the store cannot take now is tried again."""
        while True:
            await self._something.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._something.clear()
            trouble = await self._flush()
            if trouble:
                await asyncio.sleep(_RETRY_SECONDS)
            self._remind()

    def _remind(self) -> None:
        """Lazy statuses are looked at again when they are due."""
        if self._ends or self._events:
            self._something.set()
        elif self._statuses:
            first = min(waiting.due for waiting in self._statuses.values())
            self._timers.call_at(max(first, self._timers.steady()), self._something.set)

    async def _flush(self) -> bool:
        """Whatever is due, in one go; whether the store had trouble."""
        now = self._timers.steady()
        due = [uid for uid, status in self._statuses.items() if status.due <= now][:_MOST_AT_ONCE]
        statuses = {uid: self._statuses.pop(uid) for uid in due}
        ends, self._ends = self._ends, {}
        events, self._events = self._events[:_MOST_AT_ONCE], self._events[_MOST_AT_ONCE:]
        intents: list[Intent] = [self._status_intent(status.order) for status in statuses.values()]
        intents += [self._end_intent(end) for end in ends.values()]
        outcomes, _ = await self._recorder.commit(intents, events)
        trouble = False
        for (uid, waiting), outcome in zip(statuses.items(), outcomes, strict=False):
            if isinstance(outcome, Unserviceable):
                trouble = True
                self._statuses.setdefault(uid, waiting)
        for (uid, end), outcome in zip(ends.items(), outcomes[len(statuses) :], strict=False):
            if isinstance(outcome, Unserviceable):
                trouble = True
                self._ends.setdefault(uid, end)
        return trouble

    def _status_intent(self, order: WriteStatus) -> Intent:
        pod, uid, now = order.pod, uid_of(order.pod), self._timers.wall()

        def change(standing: Object) -> Object | None:
            check_preconditions(POD, standing, uid, "")
            status = merged(standing.get("status") or {}, order.status, now)
            if status is None:
                return None
            self._written[uid] = standing, status
            self._written.move_to_end(uid)
            if len(self._written) > _MOST_AT_ONCE:
                self._written.popitem(last=False)
            return {**standing, "status": status}

        return self._registry.editing(POD, namespace_of(pod), name_of(pod), change, subresource="status")

    def _end_intent(self, end: FinishDeletion) -> Intent:
        terms = DeletionTerms(uid=uid_of(end.pod), grace=0)
        return self._registry.deleting(POD, namespace_of(end.pod), name_of(end.pod), terms)
