"""The queue of waiting pods as kube-scheduler keeps it: active, backing off, and those that fit nowhere.

A pod goes by its priority and by the time of its last failed decision, from which the back-off counts too.
One that is woken while it backs off is taken only when no other is active. Times are the caller's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from proreus.worlds.pods.state.queueing_hints import backoff_end

LONGEST_IN_POOL = 300.0
"""Seconds after which a pod is tried again though nothing happened that might help it."""
SWEEP = 30.0
"""Seconds between two looks for such pods."""


class QueuePlace(Enum):
    """Where a waiting pod stands."""

    ACTIVE = auto()
    WOKEN = auto()
    """Backing off, and taken nevertheless when nobody is active."""
    BACKING_OFF = auto()
    POOL = auto()
    TAKEN = auto()
    """Being decided about."""


@dataclass(slots=True)
class _Waiting:
    priority: int
    queued: float
    ticket: int
    place: QueuePlace = QueuePlace.ACTIVE
    attempts: int = 0
    group: int = -1


_Entry = tuple[float, float, int, str]


class Queue:
    """Pods by key; see the module. Heaps drop what moved on when they meet it."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._heaps: dict[QueuePlace, list[_Entry]] = {
            QueuePlace.ACTIVE: [],
            QueuePlace.WOKEN: [],
            QueuePlace.BACKING_OFF: [],
        }
        self._pool: dict[int, set[str]] = {}
        self._tickets = 0
        self._swept = 0.0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def counts(self) -> dict[str, int]:
        """How many pods stand where."""
        counts = dict.fromkeys((place.name.lower() for place in QueuePlace), 0)
        for waiting in self._pods.values():
            counts[waiting.place.name.lower()] += 1
        return counts

    def put(self, key: str, priority: int, now: float) -> None:
        """A pod that is new, or not what it was: to be decided about at once."""
        self.drop(key)
        self._pods[key] = _Waiting(priority, now, self._ticket())
        self._push(key, QueuePlace.ACTIVE)

    def drop(self, key: str) -> None:
        """A pod does not wait any more."""
        waiting = self._pods.pop(key, None)
        if waiting is not None and waiting.place is QueuePlace.POOL:
            self._leave_pool(key, waiting)

    def take(self, now: float) -> str | None:
        """The pod to decide about next; it must be dropped, pooled or sent to back off afterwards."""
        self._flush(now)
        for place in (QueuePlace.ACTIVE, QueuePlace.WOKEN):
            heap = self._heaps[place]
            while heap:
                _, _, ticket, key = heapq.heappop(heap)
                waiting = self._pods.get(key)
                if waiting is not None and waiting.ticket == ticket and waiting.place is place:
                    waiting.place = QueuePlace.TAKEN
                    return key
        return None

    def give_back(self, key: str) -> None:
        """It was taken and nothing was decided: it stands where it stood."""
        waiting = self._pods.get(key)
        if waiting is not None and waiting.place is QueuePlace.TAKEN:
            self._push(key, QueuePlace.ACTIVE)

    def to_pool(self, key: str, group: int, now: float) -> None:
        """It fits nowhere: it waits until something happens that may help pods of its group."""
        waiting = self._failed(key, now)
        waiting.place, waiting.group = QueuePlace.POOL, group
        self._pool.setdefault(group, set()).add(key)

    def back_off(self, key: str, now: float) -> None:
        """It is to be tried again after a while."""
        self._failed(key, now)
        self._push(key, QueuePlace.BACKING_OFF)

    def back_off_again(self, key: str) -> None:
        """What its last decision said did not come about: one that waits in the pool backs off instead."""
        waiting = self._pods[key]
        if waiting.place is QueuePlace.POOL:
            self._leave_pool(key, waiting)
            self._push(key, QueuePlace.BACKING_OFF)

    def groups(self) -> list[int]:
        """Those that pods of the pool belong to."""
        return list(self._pool)

    def wake(self, groups: Iterable[int], now: float) -> None:
        """Something happened that may help pods of these groups."""
        for group in groups:
            for key in sorted(self._pool.pop(group, ()), key=lambda key: self._pods[key].ticket):
                self._bring_back(key, now)

    def wake_pod(self, key: str, now: float) -> None:
        """Something happened that may help this pod, where it is in the pool."""
        waiting = self._pods.get(key)
        if waiting is not None and waiting.place is QueuePlace.POOL:
            self._leave_pool(key, waiting)
            self._bring_back(key, now)

    def next_time(self) -> float | None:
        """When something will be due if nothing happens before; None: nothing waits for a time."""
        due = [heap[0][0] for place, heap in self._heaps.items() if place is QueuePlace.BACKING_OFF and heap]
        if self._pool:
            due.append(self._swept + SWEEP)
        return min(due, default=None)

    def ready(self) -> bool:
        """Whether `take` has something without time passing (or may have: heaps are cleaned lazily)."""
        return bool(self._heaps[QueuePlace.ACTIVE] or self._heaps[QueuePlace.WOKEN])

    def _failed(self, key: str, now: float) -> _Waiting:
        waiting = self._pods[key]
        waiting.queued, waiting.ticket = now, self._ticket()
        waiting.attempts += 1
        return waiting

    def _bring_back(self, key: str, now: float) -> None:
        waiting = self._pods[key]
        over = backoff_end(waiting.queued, waiting.attempts) <= now
        self._push(key, QueuePlace.ACTIVE if over else QueuePlace.WOKEN)

    def _push(self, key: str, place: QueuePlace) -> None:
        waiting = self._pods[key]
        waiting.place = place
        end = backoff_end(waiting.queued, waiting.attempts)
        match place:
            case QueuePlace.ACTIVE:
                entry = (-float(waiting.priority), waiting.queued, waiting.ticket, key)
            case QueuePlace.WOKEN:
                entry = (end, -float(waiting.priority), waiting.ticket, key)
            case _:
                entry = (end, 0.0, waiting.ticket, key)
        heapq.heappush(self._heaps[place], entry)

    def _flush(self, now: float) -> None:
        """What has backed off long enough is active; what was in the pool too long comes back."""
        for place in (QueuePlace.WOKEN, QueuePlace.BACKING_OFF):
            heap = self._heaps[place]
            while heap and heap[0][0] <= now:
                _, _, ticket, key = heapq.heappop(heap)
                waiting = self._pods.get(key)
                if waiting is not None and waiting.ticket == ticket and waiting.place is place:
                    self._push(key, QueuePlace.ACTIVE)
        if now - self._swept >= SWEEP:
            self._swept = now
            stale = [
                key
                for keys in self._pool.values()
                for key in keys
                if now - self._pods[key].queued > LONGEST_IN_POOL
            ]
            for key in stale:
                self.wake_pod(key, now)

    def _leave_pool(self, key: str, waiting: _Waiting) -> None:
        keys = self._pool[waiting.group]
        keys.discard(key)
        if not keys:
            del self._pool[waiting.group]

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets
