"""How long a connection may take over each step, how many there may be, and who goes when there are too many.

One look over all connections, twice a second, instead of a timer for each: a request then costs a note of the
time, and nothing that a client sends can take a limit away.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol

from proreus.httpserver.client_identity import client_of

_EVERY_SECONDS = 0.5
_UNREAD_BYTES = 128 * 1024 * 1024
"""Of answers that nobody has taken yet, of all connections together."""
_MOST_AT_A_TIME = 64
"""Connections that are looked at in one go, and that give way when there are too many: finding those takes a
walk over all."""


class Step(Enum):
    """How far a connection is with what a client sends."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


class ConnectionLimits(Protocol):
    """How long, and how many."""

    @property
    def connections(self) -> int:
        """Connections at once; for one more, those that have been idle longest are closed."""

    @property
    def body_seconds(self) -> float:
        """How long the head of a request may take to come, and how long its body."""

    @property
    def idle_seconds(self) -> float:
        """How long a connection may stay open between requests."""

    @property
    def write_seconds(self) -> float:
        """How long an answer may take to be taken."""


class LimitedConnection(Protocol):
    """What is looked at."""

    step: Step
    since: float
    """When the request began, or the pause between two."""
    unread_since: float | None
    """Since when there are answers that the client does not take."""

    @property
    def address(self) -> str:
        """Of the client."""

    @property
    def waits_for_us(self) -> bool:
        """Whether an answer is being worked on, or its body waited for."""

    @property
    def held_back(self) -> bool:
        """Whether we do not read what the client sends, for the time being."""

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not taken."""

    @property
    def leaving(self) -> bool:
        """Whether it is being closed."""

    def close(self) -> None:
        """When what was answered has been taken."""

    def abort(self) -> None:
        """Now."""


class Crowd:
    """All connections of a door."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._connections: set[LimitedConnection] = set()
        self._by_client: Counter[str] = Counter()

    def welcome(self, new: LimitedConnection) -> None:
        """One more; where there are too many, the longest idle of the client with the most give way."""
        self._connections.add(new)
        self._by_client[client_of(new.address)] += 1
        if len(self._connections) > self._limits.connections:
            leaving = self._expendable(new)
            for connection in leaving:
                connection.abort()
            if not leaving:
                new.abort()

    def farewell(self, gone: LimitedConnection) -> None:
        """One less."""
        if gone in self._connections:
            self._connections.discard(gone)
            client = client_of(gone.address)
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    async def watch(self, clock: asyncio.AbstractEventLoop) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            for _ in self.look(clock.time()):
                await asyncio.sleep(0)

    def look(self, now: float) -> Iterator[None]:
        """End what takes too long; some connections at a time, so that requests are answered in between."""
        unread: list[tuple[int, LimitedConnection]] = []
        for number, connection in enumerate(tuple(self._connections), start=1):
            if connection not in self._connections:
                continue
            bytes_left = connection.unread
            if bytes_left:
                unread.append((bytes_left, connection))
            self._look_at(connection, bytes_left, now)
            if number % _MOST_AT_A_TIME == 0:
                yield
        total = sum(amount for amount, _ in unread)
        for amount, connection in sorted(unread, key=lambda pair: -pair[0]):
            if total <= _UNREAD_BYTES:
                break
            connection.abort()
            total -= amount

    def _look_at(self, connection: LimitedConnection, unread: int, now: float) -> None:
        limits = self._limits
        if unread or connection.leaving:
            # Who has taken all has nothing left to do but to hang up; over TLS that takes two.
            patience = limits.write_seconds if unread else min(limits.write_seconds, limits.idle_seconds)
            if connection.unread_since is None:
                connection.unread_since = now
            elif now - connection.unread_since > patience:
                connection.abort()
            return
        connection.unread_since = None
        if connection.held_back:
            connection.since = now
            return
        waited = now - connection.since
        match connection.step:
            case Step.IDLE:
                over = not connection.waits_for_us and waited > limits.idle_seconds
            case Step.HEAD:
                over = waited > limits.body_seconds
            case Step.BODY if not connection.waits_for_us:
                # It was answered before all of it had come: nobody needs the rest.
                over = waited > limits.idle_seconds
            case Step.BODY:
                # Where somebody waits for the body, it is said to have come too late, a little earlier.
                over = waited > 2 * (limits.body_seconds + _EVERY_SECONDS)
        if over:
            connection.close()

    def _expendable(self, new: LimitedConnection) -> list[LimitedConnection]:
        waiting: Iterable[LimitedConnection] = (
            connection
            for connection in self._connections
            if connection is not new and not (connection.step is Step.IDLE and connection.waits_for_us)
        )
        most = max(1, min(_MOST_AT_A_TIME, self._limits.connections // 16))
        return heapq.nsmallest(
            most,
            waiting,
            key=lambda limited_connection: (
                -self._by_client[client_of(limited_connection.address)],
                limited_connection.since,
            ),
        )
