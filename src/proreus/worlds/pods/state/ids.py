"""Numbers for values that come and go: the lowest free one, counted by how often the value is in use."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, ItemsView
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)


class Ids(Generic[Value]):
    """Value -> number; a number is free again when its value is no longer in use."""

    def __init__(self) -> None:
        self._number: dict[Value, int] = {}
        self._uses: dict[Value, int] = {}
        self._free: list[int] = []
        self.limit = 0
        """All numbers that were ever given are below."""

    def __len__(self) -> int:
        return len(self._number)

    def items(self) -> ItemsView[Value, int]:
        """The values in use and their numbers."""
        return self._number.items()

    def get(self, value: Value) -> int | None:
        """The number of a value in use."""
        return self._number.get(value)

    def take(self, value: Value) -> tuple[int, bool]:
        """(number, whether the value is new); one more use of it."""
        known = self._number.get(value)
        if known is not None:
            self._uses[value] += 1
            return known, False
        number = heapq.heappop(self._free) if self._free else self.limit
        self.limit = max(self.limit, number + 1)
        self._number[value], self._uses[value] = number, 1
        return number, True

    def drop(self, value: Value) -> tuple[int, bool]:
        """(number, whether that was the last use, and the number is free)."""
        number = self._number[value]
        self._uses[value] -= 1
        if self._uses[value]:
            return number, False
        del self._number[value], self._uses[value]
        heapq.heappush(self._free, number)
        return number, True
