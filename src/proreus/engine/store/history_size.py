"""How much room the history takes: values that stand no longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from proreus.engine.store.protocol import Change


class Superseded:
    """Bytes by the revision that took their place, the oldest first."""

    def __init__(self) -> None:
        self.size = 0
        self._by_revision: deque[tuple[int, int]] = deque()

    def add(self, revision: int, size: int) -> None:
        """So much was superseded by that revision, which is no earlier than the last."""
        self.size += size
        if self._by_revision and self._by_revision[-1][0] == revision:
            size += self._by_revision.pop()[1]
        self._by_revision.append((revision, size))

    def add_changes(self, changes: Iterable[Change]) -> None:
        """What these took the place of."""
        for change in changes:
            if change.previous is not None:
                self.add(change.revision, len(change.previous.value))

    def forget(self, compacted: int) -> None:
        """The history up to that revision is let go."""
        while self._by_revision and self._by_revision[0][0] <= compacted:
            self.size -= self._by_revision.popleft()[1]

    def surplus(self, most: int) -> int:
        """The revision up to which history must go for the rest to take no more than that; 0: none must."""
        left, gone = self.size, 0
        for revision, size in self._by_revision:
            if left <= most:
                break
            left, gone = left - size, revision
        return gone
