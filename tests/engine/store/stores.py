"""A store of each kind for a test, and small ways of asking it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, TypeVar, cast

from proreus.engine.store.protocol import Change, ChangeBatch, Put, Store

T = TypeVar("T")
Opener = Callable[[], Awaitable[Store]]


class Places(Protocol):
    """Each call gives the opener of a store that nobody else uses."""

    outlive: bool
    """Whether what was written is there when it is opened again."""

    def __call__(self) -> Opener:
        """See above."""
        ...


@asynccontextmanager
async def opened(opening: Opener) -> AsyncIterator[Store]:
    """The store, closed in the end."""
    store = await opening()
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, key: str, value: bytes = b"", lease: int = 0) -> int:
    """Write one key whatever stands there; the revision."""
    return (await store.commit([], [Put(key, value, lease)])).revision


async def changes(store: Store, prefix: str, after: int, count: int) -> list[Change]:
    """The first changes of a watch."""
    changes: list[Change] = []
    async with asyncio.timeout(60), aclosing(watching(store, prefix, after)) as batches:
        if count:
            async for batch in batches:
                changes += batch.changes
                if len(changes) >= count:
                    break
    return changes


def watching(store: Store, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
    """A watch that can be closed."""
    return cast("AsyncGenerator[ChangeBatch, None]", store.watch(prefix, after))
