"""Bytes that requests may hold at once: so many in all, and half of them by one client."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable


class ByteBudget:
    """See the module; threads may share it."""

    def __init__(self, total: int, refusal: Callable[[], Exception]) -> None:
        """refusal: what is raised where the bytes are not there to be had."""
        self.total, self._refusal = total, refusal
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._sum = 0

    def take(self, client: str, amount: int) -> None:
        """Hold so many bytes more; refused where they are not there to be had."""
        with self._lock:
            if self._sum + amount > self.total or self._held[client] + amount > self.total // 2:
                raise self._refusal()
            self._held[client] += amount
            self._sum += amount

    def give_back(self, client: str, amount: int) -> None:
        """Hold so many bytes less."""
        with self._lock:
            self._sum -= amount
            self._held[client] -= amount
            if not self._held[client]:
                del self._held[client]

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._sum
