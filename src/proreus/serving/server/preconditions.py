"""What is known of a request before its body is read, and what is refused for it."""

from __future__ import annotations

import math
import re
import time

from proreus.httpserver.client_identity import client_of
from proreus.serving.allowed_hosts import NO_CHANGES, Visitors
from proreus.serving.messages import MARK, Refusal, Refused, invalid
from proreus.serving.server.router import JSON, Header, Route

_MARK = MARK.encode()
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RequestHead:
    """A request without its body."""

    __slots__ = ("began", "client", "heads", "method", "path")

    def __init__(self, method: str, path: str, headers: list[Header], address: str) -> None:
        self.began = time.perf_counter()
        self.method, self.path = method, path
        self.client = client_of(address)
        self.heads = Heads(headers)

    def check(self, route: Route, visitors: Visitors) -> None:
        """Refuse what a web page may have sent, changes that are not for all, and bodies of other types."""
        heads = self.heads
        if heads.origin is not None and not (visitors.own_pages and heads.from_own_page):
            raise Refused(Refusal.FORBIDDEN, "web pages are not answered", "origin")
        if visitors.names is not None and heads.host is not None and not visitors.know(heads.host):
            name = heads.host.decode("latin-1")
            says = f"{name!r} is not a name of this service; --allowed-host NAME makes it one"
            raise Refused(Refusal.FORBIDDEN, says, "host")
        if route.changes and not visitors.changes:
            raise Refused(Refusal.FORBIDDEN, NO_CHANGES)
        if route.changes and heads.origin is not None and not visitors.page_changes:
            says = "a page changes nothing without a token; start the service with --token-file FILE"
            raise Refused(Refusal.FORBIDDEN, says)
        if route.takes:
            if heads.media_type not in route.takes:
                given = f"{heads.media_type!r} is not" if heads.media_type else "is missing; it must be"
                raise Refused(Refusal.WRONG_TYPE, f"{given} {' or '.join(route.takes)}", "content-type")
        elif route.changes and not heads.meant:
            says = f"must be {JSON}, or send a header {MARK}: web pages may not ask for this"
            raise Refused(Refusal.WRONG_TYPE, says, "content-type")


class Heads:
    """The few headers that matter, from one pass over all of them."""

    __slots__ = (
        "authorization",
        "deadline",
        "host",
        "length",
        "marked",
        "media_type",
        "origin",
        "request_id",
    )

    def __init__(self, headers: list[Header]) -> None:
        self.authorization: bytes | None = None
        self.deadline: bytes | None = None
        self.host: bytes | None = None
        self.origin: bytes | None = None
        self.marked = False
        self.media_type = ""
        self.length = 0
        self.request_id = b""
        for name, value in headers:
            if name == b"content-type":
                self.media_type = value.decode("latin-1").partition(";")[0].strip().lower()
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() else 0
            elif name == b"host":
                # Two of them are no name at all.
                self.host = value if self.host is None else b"?"
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-deadline-ms":
                self.deadline = value
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                self.request_id = value
            elif name == b"origin":
                self.origin = value
            elif name == _MARK:
                self.marked = True

    @property
    def meant(self) -> bool:
        """Whether a request without a body shows that no web page sent it."""
        return self.marked or self.authorization is not None or self.media_type == JSON

    @property
    def from_own_page(self) -> bool:
        """Whether the page that sends it came from where it is sent to."""
        return self.origin is not None and self.origin.partition(b"://")[2] == self.host

    def seconds_left(self) -> float:
        """What the client's deadline leaves."""
        if self.deadline is None:
            return math.inf
        try:
            milliseconds = float(self.deadline)
        except ValueError:
            milliseconds = math.nan
        if not 0 < milliseconds < math.inf:
            raise invalid("x-deadline-ms", "is not a number above 0")
        return milliseconds / 1e3
