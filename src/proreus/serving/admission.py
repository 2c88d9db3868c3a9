"""Who may ask, and how often: a shared secret and a limit on the rate, the same for both doors."""

from __future__ import annotations

import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from proreus.model.errors import InputError
from proreus.serving.values import Refusal, Refused

_SHORTEST_TOKEN = 16
_MOST_CLIENTS = 10_000


def read_token(path: Path) -> bytes:
    """The secret in a file: its first line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"the token cannot be read: {error.strerror}", file=path) from error
    token = lines[0].strip() if lines else b""
    if len(token) < _SHORTEST_TOKEN:
        raise InputError(f"a token has at least {_SHORTEST_TOKEN} characters", file=path, line=1)
    if not all(33 <= byte <= 126 for byte in token):
        raise InputError("a token is made of visible ASCII characters", file=path, line=1)
    return token


class Admission:
    """Lets requests in or refuses them."""

    def __init__(
        self,
        token: bytes | None = None,
        rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """rate: requests per second and client address, a second's worth may come at once; 0: no limit."""
        self._expected = None if token is None else b"Bearer " + token
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.open = token is None and rate <= 0
        """Whether everyone is let in, always."""

    def admit(self, authorization: bytes | None, client: str) -> None:
        """Refuse whoever lacks the token or comes too often."""
        if self._expected is not None:
            # The comparison takes as long for a near miss as for a far one.
            if not hmac.compare_digest(authorization or b"", self._expected):
                raise Refused(
                    Refusal.UNAUTHENTICATED, "needs 'Bearer' and the service's token", "authorization"
                )
        if self._rate > 0:
            self._take(client)

    def _take(self, client: str) -> None:
        most = max(self._rate, 1.0)
        with self._lock:
            now = self._clock()
            left, since = self._buckets.pop(client, (most, now))
            left = min(most, left + (now - since) * self._rate)
            enough = left >= 1.0
            self._buckets[client] = (left - 1.0 if enough else left, now)
            if len(self._buckets) > _MOST_CLIENTS:
                self._buckets.popitem(last=False)
        if not enough:
            raise Refused(Refusal.EXHAUSTED, f"more than {self._rate:g} requests per second")
