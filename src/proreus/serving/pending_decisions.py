"""The latest decisions, remembered until their outcome is reported.

Online learning needs the probability that the policy gave to an action *when it decided*. A client of
the k8s simulator does not send it back, so the service remembers it by a digest of the state and the action.
Clients are spread over shelves: one that asks without end makes the service forget what is on its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from proreus.kernels.arrays import F64, Bool


class PendingDecision(NamedTuple):
    """One decision of the past."""

    log_prob: float
    version: int
    drawn: bool
    """Whether the model drew the action (and neither took the best one nor left it to the rule)."""
    mask: Bool | None
    """Which actions were allowed; None: all."""


def digest(state: F64) -> int:
    """What a state is known by: 64 bits, keyed anew in each process: collisions cannot be aimed at."""
    return hash(state.tobytes())


_Key = tuple[int, int]
_SHELVES = 256


def shelf_of(client: str) -> int:
    """Where a client's decisions are: keyed anew in each process, so nobody can aim at another's."""
    return hash(client) % _SHELVES


class RecentDecisions:
    """At most `size` decisions; the oldest of the fullest shelf gives way to the newest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        # Not plain dicts: finding the oldest entry of one whose front was deleted is a long walk.
        self._shelves: dict[int, OrderedDict[_Key, PendingDecision]] = {}
        self._latest: dict[_Key, int] = {}  # on which shelf a decision was put last
        self._held = 0
        self._fullest = 0

    def add(self, state: F64, action: int, decided: PendingDecision, client: str = "") -> None:
        """Remember a decision; the same one again counts as new."""
        key, number = (digest(state), action), shelf_of(client)
        with self._lock:
            shelf = self._shelves.get(number)
            if shelf is None:
                shelf = self._shelves[number] = OrderedDict()
            if key in shelf:
                shelf.move_to_end(key)
            elif self._held < self._size:
                self._held += 1
            else:
                self._forget_one(number, len(shelf) + 1)
            shelf[key] = decided
            self._latest[key] = number

    def _forget_one(self, adding: int, held: int) -> None:
        """The oldest decision of a shelf with more than a fair part; `adding` is to have `held`."""
        shelves = self._shelves
        number = adding
        if held == 1 or held * len(shelves) <= self._size:
            number = self._fullest
            if len(shelves.get(number, ())) * len(shelves) <= self._size:
                number = self._fullest = max(shelves, key=lambda n: len(shelves[n]))
        shelf = shelves[number]
        key, _ = shelf.popitem(last=False)
        if not shelf and number != adding:
            del shelves[number]
        if self._latest.get(key) == number:
            del self._latest[key]

    def find(self, state: F64, action: int, client: str = "") -> PendingDecision | None:
        """The latest decision for `action` in this very state, where it is still remembered.

        The client's own shelf comes first; who reports may be another than who asked.
        """
        key, own = (digest(state), action), shelf_of(client)
        with self._lock:
            for number in (own, self._latest.get(key, own)):
                shelf = self._shelves.get(number)
                if shelf is not None and key in shelf:
                    return shelf[key]
            return None

    def __len__(self) -> int:
        return self._held
