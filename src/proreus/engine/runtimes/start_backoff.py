"""How long a container waits that could not be started, and what is told of it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from proreus.engine.runtimes import container_events
from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.images.pull import BACKING_OFF, PULL_FAILED


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds; each pause is twice the one before, up to the longest."""

    first: float = 1.0
    """Where a ConfigMap may come, or the disk may have room again."""
    image: float = 10.0
    """The first after an image could not be pulled; a kubelet's."""
    longest: float = 300.0
    shown: float = 2.0
    """So long that an image could not be pulled is told before that it is waited."""


USUAL_PAUSES = Pauses()


class StartBackoff:
    """Between the attempts to start one container; stopping: nobody waits any more."""

    def __init__(self, pauses: Pauses, stopping: asyncio.Event) -> None:
        self._pauses, self._stopping = pauses, stopping
        self._pause, self._image_pause = pauses.first, pauses.image

    async def after(
        self, refused: LaunchRefused, image: str, arrival: asyncio.Event
    ) -> AsyncIterator[LaunchRefused]:
        """Until it is to be tried again; yields what is to be told in between.

        arrival: an image has come to the node, maybe the one that is missing.
        """
        pause = self._next(pulled=refused.reason == PULL_FAILED)
        if refused.reason == PULL_FAILED:
            shown = min(self._pauses.shown, pause / 2)
            if await self._rest(shown, arrival):
                return
            pull_backing_off = container_events.pull_backing_off(image)
            yield LaunchRefused(
                BACKING_OFF,
                f"{pull_backing_off.message}: {PULL_FAILED}: {refused}",
                pull_backing_off,
                container_events.failed(BACKING_OFF),
            )
            pause -= shown
        await self._rest(pause, arrival)

    def _next(self, *, pulled: bool) -> float:
        if pulled:
            pause, self._image_pause = self._image_pause, min(2 * self._image_pause, self._pauses.longest)
        else:
            pause, self._pause = self._pause, min(2 * self._pause, self._pauses.longest)
        return pause

    async def _rest(self, seconds: float, arrival: asyncio.Event) -> bool:
        """Whether something came before the time was over."""
        events = [asyncio.ensure_future(event.wait()) for event in (self._stopping, arrival)]
        try:
            done, _ = await asyncio.wait(events, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in events:
                task.cancel()
        return bool(done)
