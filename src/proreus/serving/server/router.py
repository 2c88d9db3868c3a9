"""What a door offers: paths, methods, who answers them, and what is promised of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proreus.serving.messages import Refusal, Refused

Header = tuple[bytes, bytes]
JSON, BYTES = "application/json", "application/octet-stream"
JSON_HEADER: Header = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler gets."""

    body: bytes | bytearray
    media_type: str
    part: str
    """What stands in the path where the route has braces."""
    seconds_left: float
    client: str = ""
    """Who asks."""


@dataclass(frozen=True, slots=True)
class HandlerReply:
    """What a handler gives."""

    body: bytes
    status: int = 200
    headers: tuple[Header, ...] = (JSON_HEADER,)

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return (b"connection", b"close") in self.headers


Schema = type[Any] | dict[str, Any]
"""What a body is: a type, written as JSON, or OpenAPI's own words for anything else."""


@dataclass(frozen=True)
class ResponseSpec:
    """What a route answers with when it refuses nothing."""

    says: str
    content: Mapping[str, Schema]
    """By media type."""


@dataclass(frozen=True)
class Route:
    """One method of one path: who answers it, and all that its description says (see `openapi`)."""

    handle: Callable[[Request], HandlerReply]
    summary: str
    answer: ResponseSpec
    takes: Mapping[str, Schema] = field(default_factory=dict)
    """The body, by media type; none: a body is not read."""
    own_refusals: tuple[Refusal, ...] = ()
    """Beside those that any request, or any body, may meet."""
    blocking: bool = False
    """Whether it may take long and so gets a thread."""
    open: bool = False
    """Whether it needs no token and counts towards no rate: probes."""
    changes: bool = False
    """Whether it changes what is decided later on: not for everyone, and not for web pages."""
    body_bytes: int | None = None
    """The longest body, where that is less than the door's limit."""
    inline_bytes: int = 16 * 1024
    """Of a route that does not block: a longer body gets a thread all the same."""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why a request of it may get no answer."""
        any_request = () if self.open else (Refusal.UNAUTHENTICATED, Refusal.EXHAUSTED)
        unasked = (Refusal.WRONG_TYPE,) if self.changes and not self.takes else ()
        of_body = _BODY_REFUSALS if self.takes else ()
        return (Refusal.FORBIDDEN, *any_request, *unasked, *of_body, *self.own_refusals)


_BODY_REFUSALS = (Refusal.INVALID, Refusal.TOO_SLOW, Refusal.TOO_LARGE, Refusal.WRONG_TYPE)
Routes = dict[str, dict[str, Route]]
"""By path, then by method. A path may have one part in braces, which stands for anything but a slash."""


class WrongMethod(Refused):
    """A path that exists, asked in another way than it can be."""

    def __init__(self, path: str, allowed: tuple[str, ...]) -> None:
        super().__init__(Refusal.WRONG_METHOD, f"{path} takes {' or '.join(allowed)}", "method")
        self.allowed = allowed


class Router:
    """Finds the route of a request. Paths are taken as they were sent: an encoded slash is none."""

    def __init__(self, routes: Routes) -> None:
        self._exact = {path: methods for path, methods in routes.items() if "{" not in path}
        self._patterns = [
            (re.compile(re.sub(r"\\{.*\\}", "([^/]+)", re.escape(path))), methods)
            for path, methods in routes.items()
            if "{" in path
        ]

    def exact(self, path: str, method: str) -> Route | None:
        """The route of a path without braces."""
        return self._exact.get(path, {}).get(method)

    def find(self, path: str, method: str) -> tuple[Route, str]:
        """The route, and what stands in its braces."""
        methods, part = self._exact.get(path), ""
        if methods is None:
            for pattern, candidates in self._patterns:
                match = pattern.fullmatch(path)
                if match is not None:
                    methods, part = candidates, match[1]
                    break
            else:
                raise Refused(Refusal.NOT_FOUND, f"there is no {path!r}; see /openapi.json", "path")
        route = methods.get(method)
        if route is None:
            raise WrongMethod(path, tuple(methods))
        return route, part
