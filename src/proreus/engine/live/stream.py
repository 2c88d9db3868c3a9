"""The picture as server-sent events: everything first, then what has changed, a few times a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from proreus.engine.live.picture import Picture
from proreus.engine.objects.registry import ObjectEvent
from proreus.engine.objects.times import timestamp
from proreus.engine.runtimes.timers import Timers

_PAUSE_SECONDS = 0.5
_ALIVE_SECONDS = 10.0
_ALIVE = b": alive\n\n"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class About:
    """What does not change while the process runs."""

    version: str
    store: str
    started: str


class LiveStatus:
    """See the module; informers tell it of pods, nodes and their leases."""

    def __init__(
        self, about: About, timers: Timers, schedulers: Callable[[], list[dict[str, str]]]
    ) -> None:
        self._about, self._timers, self._schedulers = about, timers, schedulers
        self._picture = Picture()
        self._changed = asyncio.Event()

    def pod_changed(self, event: ObjectEvent) -> None:
        """From an informer."""
        if event.type == "DELETED":
            self._picture.pod_gone(event.object)
        else:
            self._picture.pod_seen(event.object)
        self._tell()

    def node_changed(self, event: ObjectEvent) -> None:
        """From an informer."""
        if event.type == "DELETED":
            self._picture.node_gone(event.object)
        else:
            self._picture.node_seen(event.object)
        self._tell()

    def lease_changed(self, event: ObjectEvent) -> None:
        """From an informer."""
        if event.type != "DELETED" and event.object["metadata"].get("namespace") == "kube-node-lease":
            self._picture.lease_seen(event.object)
            self._tell()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """For one who looks on, until they leave. Each has their own place in what has happened."""
        picture = self._picture
        version = decided = 0
        while True:
            nodes = picture.nodes_since(version)
            decisions = picture.decisions_since(decided)
            version, decided = picture.version, picture.decided
            yield _message("status", self._status())
            if nodes["all"] or nodes["nodes"] or nodes["gone"]:
                yield _message("nodes", nodes)
            if decisions:
                yield _message("decisions", {"decisions": decisions})
            await asyncio.sleep(_PAUSE_SECONDS)
            while picture.version == version:
                changed = self._changed
                try:
                    async with asyncio.timeout(_ALIVE_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    yield _ALIVE

    def _tell(self) -> None:
        """Whoever waits is woken; whoever comes later waits for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _status(self) -> dict[str, Any]:
        return {
            "time": timestamp(self._timers.wall()),
            "version": self._about.version,
            "store": self._about.store,
            "started": self._about.started,
            **self._picture.status(),
            "schedulers": self._schedulers(),
        }


def _message(name: str, content: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(content))
