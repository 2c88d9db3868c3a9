"""The same world in plain Python and NumPy, written for itself: what tests hold the kernels against, and what
the plain environment of the benchmark runs on. It shares nothing with the kernels but the nouns."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from proreus.worlds.functions.model import Demand, FunctionsTerms

Asks = Literal["place", "keep", "over"]
_ENDS, _WAKES, _LOSES, _COMES = range(4)
MOST = 40.0


@dataclass
class PlainInstance:
    """A replica of a function on a node."""

    number: int
    function: int
    node: int
    ready: float
    taken: int = 0
    starting: bool = True
    idle_until: float = np.inf
    held: list[int] = field(default_factory=list)

    def __lt__(self, other: PlainInstance) -> bool:
        """For events that tie: a stale one of an instance that is gone, and one of its successor's."""
        return self.ready < other.ready


class PlainRun:
    """One run; `asks` says what is to be decided, `place`, `wait` and `keep` decide it."""

    def __init__(self, demand: Demand, terms: FunctionsTerms, kept: float | None = None) -> None:
        """`kept`: seconds that idle instances stay; None: it is asked each time."""
        self.demand, self.terms, self._kept = demand, terms, kept
        count, functions = terms.count, len(demand.functions)
        self.capacity = np.stack([terms.column(name) for name in ("cpu", "memory", "net", "disk")], axis=1)
        self.price = terms.column("price")
        self.reserved = np.zeros((count, 2), dtype=np.int64)
        self.used = np.zeros((count, 3), dtype=np.int64)
        self.holds = np.zeros(count, dtype=np.int64)
        self.active_since = np.zeros(count)
        self.active_seconds = np.zeros(count)
        self.instances: list[list[PlainInstance]] = [[] for _ in range(functions)]
        self.queues: list[deque[int]] = [deque() for _ in range(functions)]
        self.running = np.zeros(functions, dtype=np.int64)
        self.last_rfrt = np.zeros(functions)
        self._free = list(range(most_instances(demand, terms)))[::-1]
        self._events: list[tuple[float, int, int, PlainInstance | None]] = []
        self._again: set[int] = set()
        self._next = 0
        self.now, self.paid, self.rfrt, self.share = 0.0, 0.0, 0.0, 0.0
        self.served = self.dropped = self.cold = self.met = self.starts = 0
        self.ended = np.full(len(demand), np.nan)
        self.server = np.full(len(demand), -1)
        self.fate = [""] * len(demand)
        self.asks: Asks = "place"
        self.subject = 0
        self.idle: PlainInstance | None = None
        self._advance()

    def fits(self, node: int) -> bool:
        """Whether a node has room for an instance of the function at hand."""
        function = self.demand.functions[self.subject]
        room = self.capacity[node, :2] - self.reserved[node]
        return bool(function.cpu <= room[0] and function.memory <= room[1] and self._free)

    def place(self, node: int) -> None:
        """An instance of the function at hand starts there."""
        number, function = self.subject, self.demand.functions[self.subject]
        queue = self.queues[number]
        instance = PlainInstance(self._free.pop(), number, node, self.now + float(self.demand.cold[queue[0]]))
        self.instances[number].append(instance)
        self.starts += 1
        self.reserved[node] += (function.cpu, function.memory)
        if self.holds[node] == 0:
            self.active_since[node] = self.now
        self.holds[node] += 1
        heapq.heappush(self._events, (instance.ready, _WAKES, instance.number, instance))
        while queue and instance.taken < function.concurrency:
            self._hold(queue.popleft(), instance)
        if queue:
            self._again.add(number)
        self._advance()

    def wait(self) -> None:
        """No instance starts now."""
        self._advance()

    def keep(self, seconds: float) -> None:
        """The instance at hand stays for so long."""
        assert self.idle is not None
        self._keep(self.idle, seconds)
        self._advance()

    def _advance(self) -> None:
        self.idle = None
        while True:
            if self._again:
                number = min(self._again)
                self._again.remove(number)
                if self.queues[number] and self._asked(number):
                    return
            elif self._happen():
                return

    def _asked(self, number: int) -> bool:
        self.subject = number
        self.asks = "place"
        return any(self.fits(node) for node in range(self.price.size))

    def _happen(self) -> bool:
        """The next event; whether somebody has to decide, or all is over."""
        while self._events and self._is_stale(self._events[0]):
            heapq.heappop(self._events)
        when, order, number, instance = self._events[0] if self._events else (np.inf, _COMES, -1, None)
        losing = self._first_waiting()
        if losing is not None:
            due = float(self.demand.arrival[losing]) + self.terms.patience
            if (due, _LOSES) < (when, order):
                when, order, number = due, _LOSES, losing
        more = self._next < len(self.demand)
        if more and (float(self.demand.arrival[self._next]), _COMES) < (when, order):
            when, order, number = float(self.demand.arrival[self._next]), _COMES, self._next
        busy = any(self.queues) or self.running.sum() > 0
        if not more and not busy and when >= self.demand.horizon:
            self._move_clock(max(self.now, self.demand.horizon))
            self.asks = "over"
            return True
        self._move_clock(when)
        if order in (_ENDS, _WAKES):
            heapq.heappop(self._events)
        if order == _ENDS:
            assert instance is not None
            return self._end(number, instance)
        if order == _WAKES:
            assert instance is not None
            self._wake(instance)
            return False
        if order == _LOSES:
            self.queues[self.demand.function[number]].popleft()
            self._drop(number)
            return False
        return self._come(number)

    @staticmethod
    def _is_stale(event: tuple[float, int, int, PlainInstance | None]) -> bool:
        when, order, _, plain_instance = event
        return (
            order == _WAKES
            and plain_instance is not None
            and not plain_instance.starting
            and plain_instance.idle_until != when
        )

    def _first_waiting(self) -> int | None:
        heads = [queue[0] for queue in self.queues if queue]
        return min(heads) if heads else None

    def _move_clock(self, now: float) -> None:
        self.paid += int(self.price[self.holds > 0].sum()) * (now - self.now)
        self.now = now

    def _come(self, request: int) -> bool:
        self._next += 1
        number = int(self.demand.function[request])
        most = self.demand.functions[number].concurrency
        open_ = [plain_instance for plain_instance in self.instances[number] if plain_instance.taken < most]
        if not open_:
            if len(self.queues[number]) >= self.terms.queue:
                self._drop(request)
                return False
            self.queues[number].append(request)
            return self._asked(number)
        one = next((plain_instance for plain_instance in open_ if not plain_instance.starting), open_[0])
        if one.starting:
            self._hold(request, one)
            return False
        one.idle_until = np.inf
        one.taken += 1
        self.running[number] += 1
        self._run(request, one)
        return False

    def _hold(self, request: int, plain_instance: PlainInstance) -> None:
        plain_instance.taken += 1
        self.running[plain_instance.function] += 1
        self.cold += 1
        plain_instance.held.append(request)

    def _run(self, request: int, plain_instance: PlainInstance) -> None:
        function, node = self.demand.functions[plain_instance.function], plain_instance.node
        self.used[node] += (function.cpu_use, function.net, function.disk)
        stretch = max(1.0, float((self.used[node] / self.capacity[node, [0, 2, 3]]).max()))
        self.server[request] = node
        due = self.now + float(self.demand.seconds[request]) * stretch
        heapq.heappush(self._events, (due, _ENDS, request, plain_instance))

    def _end(self, request: int, plain_instance: PlainInstance) -> bool:
        function, queue = self.demand.functions[plain_instance.function], self.queues[plain_instance.function]
        self.used[plain_instance.node] -= (function.cpu_use, function.net, function.disk)
        self.fate[request] = "served"
        self.ended[request] = self.now
        self.served += 1
        rfrt = (self.now - float(self.demand.arrival[request])) / function.standard
        self.last_rfrt[plain_instance.function] = min(rfrt, MOST)
        self.rfrt += min(rfrt, MOST)
        low, high = self.terms.rfrt_low, self.terms.rfrt_high
        self.share += min(max((rfrt - low) / (high - low), 0.0), 1.0)
        self.met += rfrt <= self.terms.slo
        if queue:
            self._run(queue.popleft(), plain_instance)
            return False
        plain_instance.taken -= 1
        self.running[plain_instance.function] -= 1
        if plain_instance.taken:
            return False
        if self._kept is not None:
            self._keep(plain_instance, self._kept)
            return False
        self.idle, self.asks, self.subject = plain_instance, "keep", plain_instance.function
        return True

    def _drop(self, request: int) -> None:
        self.fate[request] = "dropped"
        self.dropped += 1
        self.rfrt += MOST
        self.share += 1.0

    def _keep(self, plain_instance: PlainInstance, seconds: float) -> None:
        if seconds > 0.0:
            plain_instance.idle_until = self.now + seconds
            heapq.heappush(
                self._events, (plain_instance.idle_until, _WAKES, plain_instance.number, plain_instance)
            )
        else:
            self._give_up(plain_instance)

    def _wake(self, plain_instance: PlainInstance) -> None:
        if not plain_instance.starting:
            self._give_up(plain_instance)
            return
        plain_instance.starting = False
        for request in plain_instance.held:
            self._run(request, plain_instance)
        plain_instance.held = []

    def _give_up(self, plain_instance: PlainInstance) -> None:
        function, node = self.demand.functions[plain_instance.function], plain_instance.node
        plain_instance.idle_until = np.inf
        self.instances[plain_instance.function].remove(plain_instance)
        self._free.append(plain_instance.number)
        self.reserved[node] -= (function.cpu, function.memory)
        self.holds[node] -= 1
        if self.holds[node] == 0:
            self.active_seconds[node] += self.now - self.active_since[node]
        self._again |= {number for number, queue in enumerate(self.queues) if queue}


def most_instances(demand: Demand, terms: FunctionsTerms) -> int:
    """That can be at a time."""
    cpu = min(function.cpu for function in demand.functions)
    memory = min(function.memory for function in demand.functions)
    room = np.minimum(terms.column("cpu") // cpu, terms.column("memory") // memory)
    return max(min(int(room.sum()), len(demand)), 1)
