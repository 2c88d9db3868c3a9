"""Parts of a process that run side by side until it is told to end; one that fails ends them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from proreus.model.errors import ProreusError, WorkError

Part = Callable[[], Coroutine[Any, Any, None]]
"""Runs until it is cancelled."""
_log = logging.getLogger(__name__)


async def supervise(parts: Mapping[str, Part], ending: asyncio.Event) -> None:
    """Run all parts until `ending` is set; they end in the reverse order of their start.

    A part that ends by itself is an error, in one line that names it.
    """
    tasks = {name: asyncio.create_task(part(), name=name) for name, part in parts.items()}
    ended = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait({ended, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        for name, task in tasks.items():
            if task.done() and not task.cancelled():
                raise _ended(name, task.exception())
    finally:
        ended.cancel()
        for name, task in reversed(tasks.items()):
            await _end(name, task)


def _ended(name: str, error: BaseException | None) -> ProreusError:
    match error:
        case None:
            return WorkError(f"{name} ended by itself")
        case ProreusError():
            return WorkError(f"{name}: {error}")
        case _:
            _log.error("%s failed", name, exc_info=error)
            return WorkError(f"{name} failed: {type(error).__name__}: {error}")


async def _end(name: str, task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])  # unlike awaiting it, this raises nothing of what the part makes of its end
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("%s: while it ended: %s", name, error)
