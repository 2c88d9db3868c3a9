"""Events of decisions, written behind everything else: bounded, counted when they repeat, never in the way.

What cannot be written is dropped after a while: nobody acts on Events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime

from proreus.engine.objects.event_recorder import EventSeries, RecordEvent
from proreus.kubeclient.client import KubeClient, Object
from proreus.kubeclient.errors import AlreadyExists, ApiError, NotFound
from proreus.kubeclient.resources import EVENTS
from proreus.model.errors import ProreusError

_MOST_WAITING = 10_000
_WRITERS = 4
_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 230
_log = logging.getLogger(__name__)
_Key = tuple[str, str, str, str]


class EventWriter:
    """Tells what happened to objects, in the API's own Events."""

    def __init__(
        self, client: KubeClient, component: str, instance: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._client, self._component, self._instance, self._clock = client, component, instance, clock
        self._series = EventSeries()
        self._waiting: deque[RecordEvent] = deque()
        self._names: OrderedDict[_Key, tuple[str, int]] = OrderedDict()
        """Name and count of events that may repeat."""
        self._news = asyncio.Event()
        self._last = 0
        self.dropped = 0
        self.written = 0

    def tell(self, event: RecordEvent) -> None:
        """One more, soon."""
        due = self._series.due(event, self._clock())
        if due is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(due)
        self._news.set()

    async def run(self) -> None:
        """Write, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(self._write())

    async def drain(self, seconds: float) -> None:
        """Until all is written, or for so long."""
        end = asyncio.get_running_loop().time() + seconds
        while self._waiting and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)

    async def _write(self) -> None:
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            event = self._waiting.popleft()
            try:
                await self._put(event)
                self.written += 1
            except ProreusError as error:
                self.dropped += 1
                if self.dropped & (self.dropped - 1) == 0:
                    _log.warning("an Event could not be written (%d so far): %s", self.dropped, error)

    async def _put(self, event: RecordEvent) -> None:
        about = event.about["metadata"]
        key = (about.get("uid", ""), event.type, event.reason, event.message)
        namespace = about.get("namespace") or "default"
        known = self._names.get(key)
        if known is not None:
            name, count = known[0], known[1] + event.times
            self._names[key] = (name, count)
            self._names.move_to_end(key)
            change = {"count": count, "lastTimestamp": _stamp(self._clock())}
            try:
                await self._client.patch(EVENTS, (namespace, name), change)
                return
            except NotFound:  # Events live for an hour
                del self._names[key]
        obj = self._event(event, namespace)
        if event.reason != "Scheduled":  # that happens once to a pod
            self._names[key] = (obj["metadata"]["name"], event.times)
            if len(self._names) > _REMEMBERED:
                self._names.popitem(last=False)
        try:
            await self._client.create(EVENTS, obj)
        except AlreadyExists:
            return  # an attempt before this one came through
        except ApiError:
            self._names.pop(key, None)
            raise

    def _event(self, event: RecordEvent, namespace: str) -> Object:
        about = event.about["metadata"]
        now = self._clock()
        self._last = max(int(now * 1e9), self._last + 1)
        involved = {
            "kind": event.kind.kind,
            "apiVersion": event.kind.api_version,
            "name": about["name"],
            "uid": about.get("uid", ""),
        }
        if about.get("namespace"):
            involved["namespace"] = about["namespace"]
        stamp = _stamp(now)
        return {
            "metadata": {"name": f"{about['name'][:_LONGEST_NAME]}.{self._last:x}", "namespace": namespace},
            "involvedObject": involved,
            "reason": event.reason,
            "message": event.message[:_LONGEST_MESSAGE],
            "type": event.type,
            "count": event.times,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance[:128],
        }


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
