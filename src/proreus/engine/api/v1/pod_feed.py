"""Every pod as a row, and which rows have changed since: the table of pods that a page keeps up to date.

Nothing is kept for whoever follows. Who remembers the number of the last change that it was told asks for
what came after; who was away for too long is told everything anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

_GONE_KEPT = 20_000
_PORTION = 2_000
"""Rows of one message: neither the server nor a page is held up by a long one."""
PodKey = tuple[str, str]
"""Namespace and name."""


class PodRow(NamedTuple):
    """One pod as the page has it; on the wire a list in this order."""

    namespace: str
    name: str
    phase: str
    node: str
    created: str
    owner: str
    cpu: float
    """Cores that it asks for."""
    memory: int
    gpu: int


@dataclass(frozen=True)
class PodChanges:
    """One message."""

    all: bool
    """Whether what was told before is to be forgotten."""
    rows: list[PodRow] = field(default_factory=list)
    gone: list[PodKey] = field(default_factory=list)
    """Before the rows: a pod of that name may have come again."""


class PodFeed:
    """See the module."""

    def __init__(self, gone_kept: int = _GONE_KEPT) -> None:
        self._rows: dict[PodKey, tuple[int, PodRow]] = {}
        """With the number of the last change, which they are in order of."""
        self._gone: deque[tuple[int, PodKey]] = deque(maxlen=gone_kept)
        self._forgotten = -1
        """The number of the newest departure that is no longer known."""

    def put(self, key: PodKey, row: PodRow | None, number: int) -> None:
        """A pod as it is after that change; None: it went."""
        before = self._rows.get(key)
        if row is not None:
            if before is None or before[1] != row:
                self._rows.pop(key, None)
                self._rows[key] = (number, row)
        elif before is not None:
            del self._rows[key]
            if len(self._gone) == self._gone.maxlen:
                self._forgotten = self._gone[0][0]
            self._gone.append((number, key))

    def since(self, number: int) -> Iterator[PodChanges]:
        """What changed after that change, in messages of bounded length; -1: everything."""
        if number < 0 or number < self._forgotten:
            rows = [row for _, row in self._rows.values()]
            for start in range(0, max(len(rows), 1), _PORTION):
                yield PodChanges(start == 0, rows[start : start + _PORTION])
            return
        changed = []
        for key in reversed(self._rows):
            at, row = self._rows[key]
            if at <= number:
                break
            changed.append(row)
        gone = []
        for at, key in reversed(self._gone):
            if at <= number:
                break
            gone.append(key)
        if not changed and not gone:
            return
        newest = iter(changed)
        yield PodChanges(False, list(islice(newest, _PORTION)), gone)
        while portion := list(islice(newest, _PORTION)):
            yield PodChanges(False, portion)
