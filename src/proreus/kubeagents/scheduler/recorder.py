"""What becomes of the pods and nodes of somebody else's cluster, kept in a folder like an engine's own trace.

`proreus records`, `train`, `compare` and the gate of candidates read it as they read that of `proreus up`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from proreus.engine.controllers.trace.core import TraceCore
from proreus.engine.scheduler.instructions import Event, InstructionFailed, Object, ObjectDeleted
from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.engine.store.factory import open_store
from proreus.engine.store.log.store_log import payload_of
from proreus.engine.store.protocol import ABSENT, Store, StoreError, Unchanged
from proreus.engine.trace.log import TraceLog
from proreus.engine.trace.reader import STORE_FILE
from proreus.engine.trace.segments import PREFIX
from proreus.kube.default_spread import SPREADING
from proreus.model.errors import WorkError
from proreus.model.files import make_private_folder
from proreus.model.pod import PodSpec

_WRITE_SECONDS = 5.0
_MOST_PODS = 2_000
_NOBODY_ELSE = Unchanged("/recorder-of-another-process", ABSENT)
"""The store is a file that this process has open alone: there is nobody to be fenced from."""
_log = logging.getLogger(__name__)


class ClusterRecorder:
    """Hears all that a scheduler hears; `open` first."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._reader = TemplateReader()
        self._core = TraceCore(self._spec, self._reader.node)
        self._store: Store | None = None
        self._trace: TraceLog | None = None
        self._listed = False
        self._written, self._at = 0, 0.0
        self.trouble = ""

    async def open(self) -> None:
        """A WorkError where nothing can be kept there."""
        try:
            make_private_folder(self._folder)
            self._store = await open_store(f"sqlite:{self._folder / STORE_FILE}")
            self._trace = TraceLog(self._store)
            async for segment in self._trace.read():
                self._core.recall(segment)
                self._written, self._at = max(self._written, segment.through), max(self._at, segment.at)
        except (OSError, StoreError) as error:
            raise WorkError(f"{self._folder}: what happens cannot be kept here: {error}") from error

    def hear(self, event: Event) -> None:
        """What happened; before `listed` only what pod templates mean is taken."""
        if isinstance(event, InstructionFailed):
            return
        obj, gone = event.object, isinstance(event, ObjectDeleted)
        metadata = obj["metadata"]
        match event.kind:
            case "Namespace":
                self._reader.set_namespace(metadata["name"], None if gone else obj)
            case "Service":
                self._reader.set_service(metadata["namespace"], metadata["name"], None if gone else obj)
            case kind if kind in SPREADING:
                self._reader.set_owner(kind, obj, gone=gone)
            case "Pod" if self._listed:
                (self._core.pod_gone if gone else self._core.pod_came)(obj, self._clock())
            case "Node" if self._listed:
                if gone:
                    self._core.node_gone(metadata["name"], self._clock())
                else:
                    self._core.node_seen(obj, self._clock())

    def listed(self, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        """What there is now, after a time that nobody saw."""
        now = self._clock()
        self._core.nodes_listed(nodes, now)
        self._core.pods_listed(pods, self._at, now)
        self._listed = True

    async def run(self) -> None:
        """Write, until cancelled; what is known then is written."""
        try:
            while True:
                await asyncio.sleep(_WRITE_SECONDS)
                await self._append()
        finally:
            await self.close()

    async def close(self) -> None:
        """Write what is left."""
        if self._store is not None:
            await self._append()
            store, self._store = self._store, None
            await store.close()

    async def segments(self) -> list[bytes]:
        """All that was written, as the gate of candidates takes it."""
        assert self._store is not None, "opened"
        return [payload_of(entry) for entry in (await self._store.list(PREFIX)).entries]

    async def _append(self) -> None:
        trace = self._trace
        while trace is not None and self._core.waiting:
            now = self._clock()
            dropped = trace.expired(now)
            for number in dropped:
                old = await trace.segment(number)
                if old is not None:
                    self._core.tell_again(old)
            self._written += 1
            segment = self._core.take(self._written, now, _MOST_PODS)
            try:
                await trace.append(segment, _NOBODY_ELSE, dropped)
                await trace.join_small(_NOBODY_ELSE)
                self._at, self.trouble = segment.at, ""
            except (StoreError, ValueError) as error:
                if not self.trouble:
                    _log.error("%s: %s; a part of the record is lost", self._folder, error)
                self.trouble = f"record: {error}"
                return

    def _spec(self, obj: Object) -> PodSpec:
        return self._reader.pod(obj).spec
