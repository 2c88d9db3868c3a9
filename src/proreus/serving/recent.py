"""The latest decisions, remembered until their outcome is reported.

Online learning needs the probability that the policy gave to an action *when it decided*. A client of
the k8s simulator does not send it back, so the service remembers it by a digest of the state and the action.
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


class RecentDecisions:
    """At most `size` decisions; the oldest gives way to the newest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        # Not a plain dict: finding the oldest entry of one whose front was deleted is a long walk.
        self._decided: OrderedDict[tuple[int, int], Decided] = OrderedDict()

    def add(self, state: F64, action: int, decided: Decided) -> None:
        """Remember a decision; the same one again counts as new."""
        key = (digest(state), action)
        with self._lock:
            self._decided[key] = decided
            self._decided.move_to_end(key)
            if len(self._decided) > self._size:
                self._decided.popitem(last=False)

    def find(self, state: F64, action: int) -> Decided | None:
        """The latest decision for `action` in this very state, where it is still remembered."""
        return self._decided.get((digest(state), action))

    def __len__(self) -> int:
        return len(self._decided)
