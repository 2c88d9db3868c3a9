"""Who may ask, and how often: a shared secret and a limit on the rate, the same for both doors."""

from __future__ import annotations

import hmac
import logging
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from proreus.httpserver.byte_budget import ByteBudget
from proreus.httpserver.rate_limit import MOST_CLIENTS, Buckets
from proreus.httpserver.work_queue import Shares, WorkQueue
from proreus.model.errors import InputError
from proreus.model.files import read_regular
from proreus.serving.messages import Refusal, Refused

_SHORTEST_TOKEN = 16
_WRONG_TOKENS, _WRONG_PER_SECOND = 20.0, 1.0
"""Wrong tokens that a client may try at once, and how fast it may go on trying."""
_log = logging.getLogger(__name__)


def read_token(path: Path, *, strict: bool = False) -> bytes:
    """The secret in a file: its first line. One that others may read is warned of, or refused if strict."""
    try:
        lines = read_regular(path).splitlines()
        others = bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError as error:
        raise InputError(f"the token cannot be read: {error.strerror}", file=path) from error
    token = lines[0].strip() if lines else b""
    if len(token) < _SHORTEST_TOKEN:
        raise InputError(f"a token has at least {_SHORTEST_TOKEN} characters", file=path, line=1)
    if not all(33 <= byte <= 126 for byte in token):
        raise InputError("a token is made of visible ASCII characters", file=path, line=1)
    if others:
        says = "other users of this machine may read the token; chmod 600 keeps it secret"
        if strict:
            raise InputError(f"--strict: {says}", file=path)
        _log.warning("%s: %s", path, says)
    return token


class RequestAdmission:
    """Lets requests in or refuses them."""

    def __init__(
        self,
        token: bytes | None = None,
        rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """rate: requests per second and client, a second's worth may come at once; 0: no limit."""
        self._expected = None if token is None else b"Bearer " + token
        self._rate = rate
        self._permits = Buckets(max(rate, 1.0), rate, clock)
        self._tries = Buckets(_WRONG_TOKENS, _WRONG_PER_SECOND, clock)
        self._proven: OrderedDict[str, None] = OrderedDict()
        """Clients that have shown the token: a neighbour's wrong ones do not shut them out."""
        self.open = token is None and rate <= 0
        """Whether everyone is let in, always."""

    def admit(self, authorization: bytes | None, client: str) -> None:
        """Refuse whoever lacks the token or comes too often."""
        if self._expected is not None:
            self._check_token(self._expected, authorization or b"", client)
        if self._rate > 0 and not self._permits.take(client):
            raise Refused(Refusal.EXHAUSTED, f"more than {self._rate:g} requests per second")

    def _check_token(self, expected: bytes, given: bytes, client: str) -> None:
        known = client in self._proven
        if not known and not self._tries.has(client):
            says = f"too many wrong ones; {_WRONG_PER_SECOND:g} a second can be tried"
            raise Refused(Refusal.EXHAUSTED, says, "authorization")
        # The comparison takes as long for a near miss as for a far one.
        if not hmac.compare_digest(given, expected):
            self._tries.take(client)
            raise Refused(Refusal.UNAUTHENTICATED, "needs 'Bearer' and the service's token", "authorization")
        if not known:
            self._proven[client] = None
            if len(self._proven) > MOST_CLIENTS:
                self._proven.popitem(last=False)


# What one client may hold of what is shared.


def byte_budget(total: int) -> ByteBudget:
    """So many bytes of requests at once; who wants more is told to come again."""
    return ByteBudget(
        total,
        lambda: Refused(Refusal.EXHAUSTED, "too much is being sent at once; send it again later", "body"),
    )


def fair_turns(shares: Shares | None = None, name: str = "work") -> WorkQueue:
    """Threads for work that may take long; who asks for too much at once is told to come again."""
    return WorkQueue(lambda says: Refused(Refusal.EXHAUSTED, says), shares, name)
