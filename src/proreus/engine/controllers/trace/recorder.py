"""The shell of the trace: it follows pods and nodes from where the trace ends, and appends to it.

Each segment says up to which revision everything is in it. Whoever leads next goes on from there: it hears
what happened meanwhile from the store's history, and where that is forgotten it compares what there is with
what was written. So a process that is killed loses nothing that the store still knows, and nothing is told
twice. Everything is written on the fence of its term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from proreus.engine.controllers.trace.core import TraceCore
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import Fenced, Gone, StatusError
from proreus.engine.objects.kinds import NAMESPACE, NODE, POD, REPLICA_SET, SERVICE, Kind
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.runtimes.stats import TOPIC, decode
from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.engine.store.protocol import StoreError
from proreus.engine.trace.log import KEPT, Retention, TraceLog
from proreus.engine.trace.segments import Segment
from proreus.engine.watch.informer import Informer
from proreus.model.pod import PodSpec

FOLLOWED = (NAMESPACE, SERVICE, REPLICA_SET)
_PAUSE = 0.2
"""Seconds between two looks at whether there is enough to write."""
_AGAIN_SECONDS = 1.0
_MOST_PODS = 2_000
"""Of one segment: some hundred kilobytes."""
_LAST_SECONDS = 5.0
"""For what is still to be written when the process ends."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TraceOptions:
    """How the trace is written."""

    seconds: float = 5.0
    """Between two segments, unless there is much to write."""
    entries: int = 1_000
    """That is much."""
    measure_seconds: float = 30.0
    """Between two looks at what pods use."""
    retention: Retention = field(default_factory=lambda: KEPT)


class TraceRecorder:
    """See the module; `informers` follow at least `FOLLOWED`."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        informers: Mapping[Kind, Informer],
        term: Term,
        options: TraceOptions | None = None,
    ) -> None:
        self._registry, self._timers, self._informers, self._term = registry, timers, informers, term
        self._options = options or TraceOptions()
        self._log = TraceLog(registry.store, self._options.retention)
        self._reader = TemplateReader()
        self.core = TraceCore(self._spec, self._reader.node)
        self._written, self._at = 0, 0.0
        """The revision and the moment that the trace reaches to."""
        self._seen: dict[Kind, int] = {}
        self._unsure: tuple[Segment, list[int]] | None = None
        """A segment that may have been written, and what was to go with it."""
        informers[NAMESPACE].subscribe(self._namespace)
        informers[SERVICE].subscribe(self._service)
        informers[REPLICA_SET].subscribe(self._owner)

    async def run(self) -> None:
        """Record until cancelled; what is known then is written."""
        for kind in FOLLOWED:
            await self._informers[kind].synced.wait()
        await self._recall()
        try:
            async with asyncio.TaskGroup() as group:
                for kind in (POD, NODE):
                    group.create_task(self._follow(kind))
                group.create_task(self._measure())
                group.create_task(self._write())
        finally:
            with contextlib.suppress(TimeoutError, StoreError, StatusError):
                async with asyncio.timeout(_LAST_SECONDS):
                    while self.core.waiting or self._unsure:
                        await self._append()

    async def _recall(self) -> None:
        """What was written before."""
        while True:
            try:
                async for segment in self._log.read():
                    self.core.recall(segment)
                    self._written, self._at = max(self._written, segment.through), max(self._at, segment.at)
                    await asyncio.sleep(0)
                break
            except StoreError as error:
                _log.warning("reading the trace: %s; trying again", error)
                await asyncio.sleep(_AGAIN_SECONDS)
        self._seen = {POD: self._written, NODE: self._written}

    async def _follow(self, kind: Kind) -> None:
        """Every change since the trace ends; where these are forgotten, what there is now."""
        relist = not self._written
        while True:
            try:
                if relist:
                    await self._list(kind)
                    relist = False
                after = self._seen[kind]
                async with aclosing(self._registry.watch(kind, "", after)) as events:
                    async for event in events:
                        self._take(kind, event)
            except Gone:
                relist = True
            except StatusError as error:
                _log.warning("recording %s: %s; trying again", kind.plural, error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _measure(self) -> None:
        """What pods use, as the agents of their nodes tell it."""
        notes = self._registry.notes(TOPIC)
        while True:
            await asyncio.sleep(self._options.measure_seconds)
            try:
                by_node = await notes.all()
            except StatusError as error:
                _log.warning("reading what pods use: %s; trying again", error)
                continue
            for note in by_node.values():
                self._used(note)
                await asyncio.sleep(0)  # others want to go on meanwhile

    def _used(self, note: bytes) -> None:
        try:
            measures = decode(note)
        except msgspec.DecodeError:
            return  # of another version: its own API tells
        sums: dict[str, tuple[int, int]] = {}
        for use in measures.containers:
            cpu, memory = sums.get(use.uid, (0, 0))
            sums[use.uid] = cpu + use.cpu, memory + use.memory
        for uid, (cpu, memory) in sums.items():
            self.core.pod_used(uid, cpu, memory)

    async def _list(self, kind: Kind) -> None:
        listed = await self._registry.list(kind)
        now = self._timers.wall()
        if kind is POD:
            self.core.pods_listed(listed.items, self._at, now)
        else:
            self.core.nodes_listed(listed.items, now)
        self._seen[kind] = listed.revision

    def _take(self, kind: Kind, event: ObjectEvent) -> None:
        now, gone = self._timers.wall(), event.type == "DELETED"
        if event.type == "BOOKMARK":
            self._seen[kind] = max(self._seen[kind], event.revision)
            return
        if kind is POD and event.type == "ADDED":
            self.core.pod_came(event.object, now)
        elif kind is POD:
            (self.core.pod_gone if gone else self.core.pod_seen)(event.object, now)
        elif gone:
            self.core.node_gone(event.object["metadata"]["name"], now)
        else:
            self.core.node_seen(event.object, now)
        # More changes of this revision may follow: to hear of one again does no harm.
        self._seen[kind] = max(self._seen[kind], event.revision - 1)

    async def _write(self) -> None:
        last = self._timers.steady()
        while True:
            await asyncio.sleep(_PAUSE)
            due = self._timers.steady() - last >= self._options.seconds
            if not (
                self._unsure or self.core.waiting >= self._options.entries or (due and self.core.waiting)
            ):
                continue
            last = self._timers.steady()
            try:
                await self._append()
                await self._log.join_small(self._term.fence)
            except Fenced:
                self._term.fenced()
            except (StoreError, ValueError) as error:
                _log.warning("writing the trace: %s; trying again", error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _append(self) -> None:
        """One segment more."""
        if self._unsure is None:
            now = self._timers.wall()
            dropped = self._log.expired(now)
            for number in dropped:
                old = await self._log.segment(number)
                if old is not None:
                    self.core.tell_again(old)
            all_taken = self.core.waiting <= _MOST_PODS
            through = min(self._seen.values()) if all_taken else self._written
            self._unsure = (self.core.take(max(through, self._written), now, _MOST_PODS), dropped)
        segment, dropped = self._unsure
        await self._log.append(segment, self._term.fence, dropped)
        self._unsure = None
        self._written, self._at = segment.through, segment.at

    # What pod templates mean depends on these.

    def _spec(self, obj: dict[str, object]) -> PodSpec:
        return self._reader.pod(obj).spec

    def _namespace(self, event: ObjectEvent) -> None:
        gone = event.type == "DELETED"
        self._reader.set_namespace(event.object["metadata"]["name"], None if gone else event.object)

    def _service(self, event: ObjectEvent) -> None:
        metadata = event.object["metadata"]
        obj = None if event.type == "DELETED" else event.object
        self._reader.set_service(metadata["namespace"], metadata["name"], obj)

    def _owner(self, event: ObjectEvent) -> None:
        self._reader.set_owner(REPLICA_SET.kind, event.object, gone=event.type == "DELETED")
