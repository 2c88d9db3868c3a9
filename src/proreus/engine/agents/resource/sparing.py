"""How much is told of one object at most: what happens again and again must not fill the store.

As client-go's filter of events does it: so many at once, then one every few minutes.
"""

from __future__ import annotations

from collections import OrderedDict

BURST = 25.0
REFILL_SECONDS = 300.0
_REMEMBERED = 4096
"""Objects; of those before nothing was told for long."""


class Sparing:
    """One bucket for each object, by its uid."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What each may still tell, as of a moment of the steady clock."""

    def allows(self, uid: str, steady: float) -> bool:
        """Whether one thing more may be told of it now; counts it."""
        left, since = self._left.pop(uid, (BURST, steady))
        left = min(BURST, left + (steady - since) / REFILL_SECONDS)
        allowed = left >= 1.0
        self._left[uid] = (left - 1.0 if allowed else left, steady)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return allowed
