"""Who counts as one client: whatever is shared out is shared out among these."""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from functools import lru_cache

from proreus.serving.values import Refusal, Refused


@lru_cache(maxsize=4_096)
def client_of(address: str) -> str:
    """The client behind a numeric address: the address itself, of IPv6 the network of 2**64 of them.

    A service has one token, so that all who are let in have the same: the address tells them apart.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


class ByteBudget:
    """Bytes that requests may hold at once: so many in all, and half of them by one client."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._sum = 0

    def take(self, client: str, amount: int) -> None:
        """Hold so many bytes more; refused where they are not there to be had."""
        with self._lock:
            if self._sum + amount > self.total or self._held[client] + amount > self.total // 2:
                raise Refused(
                    Refusal.EXHAUSTED, "too much is being sent at once; send it again later", "body"
                )
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
