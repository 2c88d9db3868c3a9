"""Threads for work that may take long, shared out among clients.

Clients take turns: of those that wait, the one is served next that was served longest ago, however much the
others have asked for. One client never holds all threads. Large work (by the size of what is asked) has few
threads for all, and one for each client, so that small work never waits behind it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")

LAST_SECONDS = 5.0
"""For work under way when the doors have closed: its client has gone already."""


@dataclass(frozen=True)
class Shares:
    """How threads are shared out."""

    threads: int = 4
    large: int = 2
    """Threads that large work may use at once."""
    waiting: int = 1_024
    """Pieces of work that may wait, of all clients together."""
    waiting_large: int = 4
    """Pieces of large work of one client that may wait or be at work."""


@dataclass(frozen=True)
class _Work:
    client: str
    large: bool
    run: Callable[[], Any]
    result: Future[Any]


class WorkQueue:
    """Work of many clients, done in turns by a few threads."""

    def __init__(
        self, refusal: Callable[[str], Exception], shares: Shares | None = None, name: str = "work"
    ) -> None:
        """refusal: what is raised, in these words, where too much waits."""
        self._refusal, self._shares, self._name = refusal, shares or Shares(), name
        self._ready = threading.Condition()
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()
        """Clients in the order in which they are served next."""
        self._count = 0
        self._running: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        """Large work by client, waiting or at work."""
        self._large_running: Counter[str] = Counter()
        self._ending = False
        self._threads: list[threading.Thread] = []

    def submit(self, client: str, large: bool, run: Callable[[], Result]) -> Future[Result]:
        """Do it when it is the client's turn; refused where too much waits already."""
        shares, result = self._shares, Future[Result]()
        with self._ready:
            if self._ending:
                raise self._refusal("the service is ending")
            if self._count >= shares.waiting:
                raise self._refusal(f"more than {shares.waiting} requests are waiting")
            if large and self._large[client] >= shares.waiting_large:
                says = f"{shares.waiting_large} large requests of yours are being worked on; wait for one"
                raise self._refusal(says)
            if large:
                self._large[client] += 1
            self._waiting.setdefault(client, deque()).append(_Work(client, large, run, result))
            self._count += 1
            if len(self._threads) < shares.threads:
                self._start_thread()
            self._ready.notify()
        return result

    def close(self, seconds: float) -> None:
        """Do what waits, then end; work that has not ended by then is left behind."""
        until = time.monotonic() + seconds
        with self._ready:
            self._ending = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            with self._ready:
                while (work := self._next()) is None:
                    if self._ending and not self._count:
                        return
                    self._ready.wait()
            if work.result.set_running_or_notify_cancel():
                try:
                    work.result.set_result(work.run())
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                    work.result.set_exception(error)
            self._done(work)
            del work  # its request and answer may be large, and the next may be long in coming

    def _next(self) -> _Work | None:
        """The work whose turn it is, out of the queue; None where none may begin now."""
        for client, queue in self._waiting.items():
            # One thread is always left for somebody else.
            if self._running[client] >= max(self._shares.threads - 1, 1):
                continue
            position = self._first_that_may_begin(client, queue)
            if position is None:
                continue
            work = queue[position]
            del queue[position]
            self._count -= 1
            self._running[client] += 1
            if work.large:
                self._large_running[client] += 1
            if queue:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            return work
        return None

    def _first_that_may_begin(self, client: str, queue: deque[_Work]) -> int | None:
        """Small work passes large work of the same client that has to wait."""
        if not self._large_running[client] and self._large_running.total() < self._shares.large:
            return 0
        # There is little large work of one client, so little to step over.
        return next((position for position, work in enumerate(queue) if not work.large), None)

    def _done(self, work: _Work) -> None:
        with self._ready:
            _less(self._running, work.client)
            if work.large:
                _less(self._large, work.client)
                _less(self._large_running, work.client)
            if self._count or self._ending:
                self._ready.notify_all()


def _less(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if counts[client] <= 0:
        del counts[client]
