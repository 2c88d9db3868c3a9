"""How many of a sort of request go on at once, in all and of one client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from proreus.engine.objects.errors import TooManyRequests


class ConcurrencyLimit:
    """The others wait, each client for its own first."""

    def __init__(self, at_once: int, of_a_client: int) -> None:
        self._all, self._of_a_client = asyncio.Semaphore(at_once), of_a_client
        self._own: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Within: it is the client's turn."""
        own = self._own.setdefault(client, asyncio.Semaphore(self._of_a_client))
        self._waiting[client] += 1
        try:
            async with own, self._all:
                yield
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client], self._own[client]


class Seats:
    """The others are told to come again."""

    def __init__(self, seats: int, of_a_client: int, says: str) -> None:
        self._seats, self._of_a_client, self._says = seats, of_a_client, says
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """By all clients together."""
        return self._taken.total()

    def check(self, client: str) -> None:
        """`TooManyRequests` where there is none left."""
        if self.taken >= self._seats or self._taken[client] >= self._of_a_client:
            raise TooManyRequests(self._says)

    def sit(self, client: str) -> None:
        """Take one."""
        self.check(client)
        self._taken[client] += 1

    def rise(self, client: str) -> None:
        """Give it back."""
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]

    @contextmanager
    def seated(self, client: str) -> Iterator[None]:
        """Within: one is taken."""
        self.sit(client)
        try:
            yield
        finally:
            self.rise(client)
