"""The newest Events of a cluster, for a page: the last few hundred, each with a number in order of arrival.

An informer would keep all that there are, which may be some for every pod; here the list is looked through
once, and what is not among the newest is let go.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from contextlib import aclosing
from typing import Any

from proreus.engine.objects.errors import Gone, StatusError
from proreus.engine.objects.kinds import EVENT
from proreus.engine.objects.metadata import Object
from proreus.engine.objects.registry import Registry

_KEPT = 200
_LONGEST = 1_024
"""Characters of a message that are told."""
_PAUSE = 1.0
_log = logging.getLogger(__name__)


class RecentEvents:
    """See the module."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._newest: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_KEPT)
        self.count = 0
        """So many have been noted: whoever remembers the number knows whether there are others."""

    def since(self, number: int) -> list[dict[str, Any]]:
        """Those after that number, oldest first."""
        return [told for at, told in self._newest if at > number]

    async def run(self) -> None:
        """Follow, until cancelled."""
        seen = 0
        while True:
            try:
                listed = await self._registry.list(EVENT)
                fresh = [obj for obj in listed.items if _version(obj) > seen]
                for obj in sorted(heapq.nlargest(_KEPT, fresh, key=_version), key=_version):
                    self._note(obj)
                seen = listed.revision
                async with aclosing(self._registry.watch(EVENT, "", seen)) as events:
                    async for event in events:
                        if event.type in ("ADDED", "MODIFIED"):
                            self._note(event.object)
                        seen = max(seen, event.revision)
            except Gone:
                continue
            except StatusError as error:
                _log.warning("following events: %s; trying again", error)
                await asyncio.sleep(_PAUSE)

    def _note(self, obj: Object) -> None:
        self.count += 1
        about, source = obj.get("involvedObject") or {}, obj.get("source") or {}
        self._newest.append(
            (
                self.count,
                {
                    "time": obj.get("lastTimestamp")
                    or obj.get("eventTime")
                    or obj["metadata"].get("creationTimestamp", ""),
                    "namespace": about.get("namespace", ""),
                    "kind": about.get("kind", ""),
                    "name": about.get("name", ""),
                    "type": obj.get("type", ""),
                    "reason": obj.get("reason", ""),
                    "message": str(obj.get("message", ""))[:_LONGEST],
                    "count": obj.get("count") or 1,
                    "from": source.get("component") or obj.get("reportingComponent", ""),
                },
            )
        )


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
