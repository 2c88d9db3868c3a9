"""Calls that hold a place while they wait for their client: how many, how long, and who gives way."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from proreus.serving.messages import Refusal, Refused
from proreus.serving.server.grpc_methods import Call

_CROWDED_SECONDS = 1.0
"""How long a message may take to come where too many calls wait for theirs."""


class WaitingCalls:
    """Calls whose message has not come; of each client the oldest first."""

    def __init__(self, at_ease: int, most: int, seconds: float) -> None:
        """at_ease: calls that may take all of `seconds`. most: calls that may wait at all."""
        self._at_ease, self._most, self._seconds = at_ease, most, seconds
        self._by_client: dict[str, OrderedDict[Call, None]] = {}
        self._count = 0

    def enter(self, call: Call) -> Call | None:
        """One more; who has to go for it, where there are too many."""
        self._by_client.setdefault(call.client, OrderedDict())[call] = None
        self._count += 1
        call.connection.unanswerable += 1
        return self._oldest_of_most() if self._count > self._most else None

    def leave(self, call: Call) -> None:
        """Its message is there, or nobody waits any more."""
        calls = self._by_client.get(call.client)
        if calls is not None and call in calls:
            del calls[call]
            if not calls:
                del self._by_client[call.client]
            self._count -= 1
            call.connection.unanswerable -= 1

    def overdue(self) -> list[Call]:
        """Those that have waited too long; where many wait, the oldest of the client with the most, too."""
        now = time.monotonic()
        late = []
        for calls in self._by_client.values():
            for call in calls:
                if now - call.began <= self._seconds:
                    break
                late.append(call)
        more = self._count - len(late) - self._at_ease
        if more > 0:
            busiest = sorted(self._by_client.values(), key=len, reverse=True)
            slow = (call for calls in busiest for call in calls if now - call.began > _CROWDED_SECONDS)
            late += [call for call in slow if call not in late][:more]
        return late

    def _oldest_of_most(self) -> Call:
        busiest = max(self._by_client, key=lambda client: len(self._by_client[client]))
        return next(iter(self._by_client[busiest]))


class Conversations:
    """Streams that are open, with an answer to each message; there are few."""

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """idle_seconds: how long one keeps its place without a word, where somebody else wants it."""
        self._most, self._idle_seconds, self._clock = most, idle_seconds, clock
        self._heard: OrderedDict[Call, float] = OrderedDict()

    def enter(self, call: Call) -> Call | None:
        """One more; who has to go for it, which is the one that has been silent longest."""
        leaving = None
        if len(self._heard) >= self._most:
            silent, since = next(iter(self._heard.items()))
            if self._clock() - since < self._idle_seconds:
                raise Refused(Refusal.EXHAUSTED, "too many streams are open")
            leaving = silent
        self.heard(call)
        return leaving

    def heard(self, call: Call) -> None:
        """It is in use."""
        self._heard[call] = self._clock()
        self._heard.move_to_end(call)

    def leave(self, call: Call) -> None:
        """One less."""
        self._heard.pop(call, None)


class Subscribers:
    """Calls that are told of changes for as long as they like: so many in all, and of one client."""

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._clients: dict[Call, str] = {}

    def enter(self, call: Call) -> None:
        """One more."""
        own = sum(client == call.client for client in self._clients.values())
        if len(self._clients) >= self._most or own >= self._each:
            raise Refused(Refusal.EXHAUSTED, "too many calls watch already")
        self._clients[call] = call.client

    def leave(self, call: Call) -> None:
        """One less."""
        self._clients.pop(call, None)
