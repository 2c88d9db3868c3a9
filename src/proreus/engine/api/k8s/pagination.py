"""What stands, read and sent a portion at a time, so that a list of any length costs no more than a portion.

Portions that are being sent are counted by their bytes, of all clients together and of each; who asks for
more waits a while for those before, and is then told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from proreus.engine.api.server.concurrency_limit import ConcurrencyLimit
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.objects.errors import TooManyRequests
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.registry import Listed, Registry
from proreus.httpserver.byte_budget import ByteBudget

_READ_AT_ONCE, _READ_BY_A_CLIENT = 8, 4
"""Portions that are read and written down at the same time."""
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Span:
    """What is listed."""

    kind: Kind
    namespace: str = ""


class ListPages:
    """See the module; shared by lists and watches."""

    def __init__(self, registry: Registry, limits: ApiLimits) -> None:
        self._registry = registry
        self._bytes, self._patience = limits.portion_bytes, limits.portion_seconds
        self._budget = ByteBudget(
            limits.listed_bytes,
            lambda: TooManyRequests("too many long lists are being sent; take yours, or ask with a limit"),
        )
        self._reading = ConcurrencyLimit(_READ_AT_ONCE, _READ_BY_A_CLIENT)

    @property
    def held(self) -> int:
        """Bytes of the portions that are being sent."""
        return self._budget.held

    def turn(self, client: str) -> AbstractAsyncContextManager[None]:
        """Within: it is the client's turn to read a portion, and to write it down."""
        return self._reading.turn(client)

    async def read(self, span: Span, after: str = "", revision: int = 0, limit: int = 0) -> Listed:
        """What stands behind that key, or as much of it as is a portion."""
        return await self._registry.list(
            span.kind, span.namespace, limit=limit, after=after, revision=revision, most_bytes=self._bytes
        )

    async def all(self, client: str, span: Span) -> AsyncGenerator[Listed, None]:
        """All portions as of one revision, each counted for as long as whoever asked has it."""
        after, revision = "", 0
        while True:
            async with self.turn(client):
                listed = await self.read(span, after, revision)
            after, revision = listed.after, listed.revision
            async with self.counted(client, listed.size):
                yield listed
            del listed
            if not after:
                return

    def counted(self, client: str, size: int) -> _Counted:
        """Within: so many bytes are being sent to the client; `TooManyRequests` where there is no room."""
        return _Counted(self._budget, client, size, self._patience)


class _Counted:
    """Room for one portion, waited for."""

    def __init__(self, budget: ByteBudget, client: str, size: int, patience: float) -> None:
        self._budget, self._client, self._size, self._patience = budget, client, size, patience

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while True:
            try:
                self._budget.take(self._client, self._size)
            except TooManyRequests:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    async def __aexit__(self, *_: object) -> None:
        self._budget.give_back(self._client, self._size)
