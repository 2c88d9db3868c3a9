"""gRPC calls that hold a thread while they wait for their client: how many, how long, and who gives way.

The library gives a call a thread as soon as its head is there, and the thread then waits for the message. So
there are more threads than decisions need, calls that wait are known here, and where many wait, those that
have waited longest are cancelled.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from proreus.httpserver.client_identity import client_of
from proreus.serving.messages import Refusal, Refused, invalid

Context: TypeAlias = Any  # grpcio has no types: a grpc.ServicerContext
_EVERY_SECONDS = 0.05
_CROWDED_SECONDS, _SHORT_SECONDS = 1.0, 0.1
"""How long a message may take to come where too many calls wait for theirs, and where memory is short."""
_MOST_GROWTH = 256 * 1024 * 1024
"""Bytes by which the process may grow while messages come in: the library holds what has come of each."""
_FEW = 4
"""Calls that may wait for their message even then."""
_IDLE_STREAM_SECONDS = 10.0
"""For how long a stream keeps its place without a word, where somebody else wants it."""


def client_of_call(context: Context) -> str:
    """The client of a call: its peer is `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
    address = unquote(context.peer()).partition(":")[2].rpartition(":")[0]
    return client_of(address.removeprefix("[").removesuffix("]"))


def resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    try:
        return int(_STATUS.read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


_STATUS, _PAGE_BYTES = Path("/proc/self/statm"), mmap.PAGESIZE


@dataclass(eq=False)
class _Held:
    """A call that holds a thread."""

    context: Context
    since: float


class Messages:
    """Calls that wait for their message."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """most: calls that may wait at ease; beyond that they have little time. seconds: for any message."""
        self._most, self._seconds, self._clock = most, seconds, clock
        self._waiting: dict[_Held, None] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._first_size = 0

    def next(self, requests: Iterator[bytes], context: Context) -> bytes:
        """The message of a call."""
        held = _Held(context, self._clock())
        with self._lock:
            self._waiting[held] = None
        try:
            return next(requests)
        except StopIteration:
            raise invalid("request", "a message is missing") from None
        finally:
            with self._lock:
                del self._waiting[held]

    def watch(self) -> None:
        """Look after those that wait, from now on."""
        self._first_size = resident_bytes()
        threading.Thread(target=self._watch, name="grpc-patience", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            for held in self.overdue():
                held.context.cancel()

    def overdue(self) -> list[_Held]:
        """Those that have waited too long: where many wait, the oldest of the client with the most first."""
        now = self._clock()
        with self._lock:
            waiting = list(self._waiting)
        late = [held for held in waiting if now - held.since > self._seconds]
        short = len(waiting) > _FEW and resident_bytes() > self._first_size + _MOST_GROWTH
        most, patience = (_FEW, _SHORT_SECONDS) if short else (self._most, _CROWDED_SECONDS)
        if len(waiting) > most:
            clients = {held: client_of_call(held.context) for held in waiting}
            counts = Counter(clients.values())
            slow = [held for held in waiting if now - held.since > patience]
            slow.sort(key=lambda held: (-counts[clients[held]], held.since))
            late += slow[: len(waiting) - most]
        return late


class Streams:
    """Streams that are open; each holds a thread, so there are few."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._open: dict[_Held, None] = {}
        self._lock = threading.Lock()

    def enter(self, context: Context) -> _Held:
        """One more; where there are too many, the one gives way that has been silent longest."""
        now = self._clock()
        with self._lock:
            if len(self._open) >= self._most:
                silent = min(self._open, key=lambda held: held.since)
                if now - silent.since < _IDLE_STREAM_SECONDS:
                    raise Refused(Refusal.EXHAUSTED, "too many streams are open")
                del self._open[silent]
                silent.context.cancel()
            held = _Held(context, now)
            self._open[held] = None
        return held

    def heard(self, held: _Held) -> None:
        """The stream is in use."""
        held.since = self._clock()

    def leave(self, held: _Held) -> None:
        """One less."""
        with self._lock:
            self._open.pop(held, None)


class Watchers:
    """Calls that are told of changes for as long as they like; they hold no thread, but memory."""

    def __init__(self, most: int, each: int) -> None:
        """each: of one client."""
        self._most, self._each = most, each
        self._clients: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, context: Context) -> None:
        """One more, until its call ends."""
        client = client_of_call(context)
        with self._lock:
            if self._clients.total() >= self._most or self._clients[client] >= self._each:
                raise Refused(Refusal.EXHAUSTED, "too many calls watch already")
            self._clients[client] += 1
        if not context.add_callback(lambda: self._leave(client)):
            self._leave(client)

    def _leave(self, client: str) -> None:
        with self._lock:
            self._clients[client] -= 1
            if self._clients[client] <= 0:
                del self._clients[client]


class CallThreads(ThreadPoolExecutor):
    """The threads of the library; knows how many calls wait for one."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads, thread_name_prefix="grpc")
        self._counting = threading.Lock()
        self.waiting = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A call that waits for a thread."""
        with self._counting:
            self.waiting += 1
        return super().submit(self._begin, fn, args, kwargs)

    def _begin(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._counting:
            self.waiting -= 1
        return call(*args, **kwargs)
