"""The latest decisions, remembered until their outcome is reported.

Online learning needs the probability that the policy gave to an action *when it decided*. A client of
the k8s simulator does not send it back, so the service remembers it by a digest of the state and the action.
Each client has a shelf of its own: one that asks without end makes the service forget its own decisions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from proreus.kernels.arrays import F64, Bool


class Decided(NamedTuple):
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


class RecentDecisions:
    """At most `size` decisions; the oldest of who has most gives way to the newest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        # Not plain dicts: finding the oldest entry of one whose front was deleted is a long walk.
        self._shelves: dict[str, OrderedDict[_Key, Decided]] = {}
        self._latest: dict[_Key, str] = {}
        """Who was given this decision last."""
        self._held = 0
        self._largest = ""

    def add(self, state: F64, action: int, decided: Decided, client: str = "") -> None:
        """Remember a decision; the same one again counts as new."""
        key = (digest(state), action)
        with self._lock:
            shelf = self._shelves.get(client)
            if shelf is None:
                shelf = self._shelves[client] = OrderedDict()
            self._held += key not in shelf
            shelf[key] = decided
            shelf.move_to_end(key)
            self._latest[key] = client
            if self._held > self._size:
                self._forget_one(client)

    def _forget_one(self, adding: str) -> None:
        """The oldest decision of whoever has more than a fair part."""
        fair = self._size // len(self._shelves)
        owner = next((c for c in (adding, self._largest) if len(self._shelves.get(c, ())) > fair), None)
        if owner is None:
            owner = self._largest = max(self._shelves, key=lambda client: len(self._shelves[client]))
        shelf = self._shelves[owner]
        key, _ = shelf.popitem(last=False)
        self._held -= 1
        if not shelf:
            del self._shelves[owner]
        if self._latest.get(key) == owner:
            del self._latest[key]

    def find(self, state: F64, action: int, client: str = "") -> Decided | None:
        """The latest decision for `action` in this very state, where it is still remembered.

        The client's own comes first; who reports may be another than who asked.
        """
        key = (digest(state), action)
        with self._lock:
            for name in (client, self._latest.get(key, client)):
                shelf = self._shelves.get(name)
                if shelf is not None and key in shelf:
                    return shelf[key]
            return None

    def __len__(self) -> int:
        return self._held
