"""What a gRPC method is, and what is known of a call before its message is there."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from proreus.serving.messages import Refusal, Refused, invalid
from proreus.serving.server.http2.answers import Stream
from proreus.serving.server.http2.connection import Http2Connection
from proreus.serving.server.http2.hpack import Header

if TYPE_CHECKING:
    from concurrent.futures import Future

_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_DIGITS = 8
_EITHER_FORMAT = 47
"""zlib's word for "gzip or zlib, whichever it is"."""
Send = Callable[[bytes], None]


@dataclass(frozen=True)
class Method:
    """How the calls of one method are answered; messages are bytes, both ways."""

    answer: Callable[[bytes, Call], bytes] | None = None
    """The answer to a message; `Refused` where it has none."""
    shape: Literal["unary", "conversation"] = "unary"
    """One message, or any number of them with an answer each."""
    subscribe: Callable[[bytes, Send], Callable[[], None]] | None = None
    """In place of `answer`: sends answers, from any thread, until the function that it returns is called."""
    in_turn: bool = False
    """Whether it may take long, so that a thread does it when it is the client's turn."""
    open_to_all: bool = False
    """Whether no token is needed."""
    changes: bool = False
    """Whether it teaches the model."""


@dataclass(frozen=True, slots=True)
class CallHead:
    """The headers of a call that matter."""

    method: Method | None
    authorization: bytes | None = None
    seconds: float = math.inf
    """How long the client waits."""
    encoding: bytes = b"identity"
    """Of messages that are compressed."""
    request_id: str = ""
    refusal: Refused | None = None


class Call(Stream):
    """A stream that is a call of a method."""

    __slots__ = ("began", "body", "client", "head", "held", "method", "stop", "trailers", "work")

    def __init__(self, connection: Http2Connection, number: int, head: CallHead, client: str) -> None:
        super().__init__(connection, number, ended=False)
        assert head.method is not None
        self.head, self.method, self.client = head, head.method, client
        self.began = time.monotonic()
        self.body: bytearray | None = None
        """What has come and is no whole message yet, or waits for its turn."""
        self.held = 0
        """Bytes that count against the client's budget."""
        self.trailers = b""
        """Headers of the method behind its answer."""
        self.work: Future[bytes] | bool = False
        """Whether a message is being worked on."""
        self.stop: Callable[[], None] | None = None

    def seconds_left(self) -> float:
        """How long the client still waits."""
        if self.head.seconds == math.inf:
            return math.inf
        return self.began + self.head.seconds - time.monotonic()


def read_head(headers: list[Header], methods: Mapping[bytes, Method]) -> CallHead:
    """The head of a call, with the reason where it is none."""
    named = dict(headers)
    path = named.get(b":path", b"")
    method = methods.get(path)
    refusal: Refused | None = None
    seconds = math.inf
    media_type = named.get(b"content-type", b"")
    if named.get(b":method") != b"POST" or not media_type.startswith(b"application/grpc"):
        refusal = Refused(Refusal.WRONG_TYPE, "this is a gRPC server: POST, application/grpc", "content-type")
    elif method is None:
        refusal = Refused(Refusal.WRONG_METHOD, f"{path.decode('latin-1')!r} is no method of this server")
    elif b"grpc-timeout" in named:
        try:
            seconds = _read_timeout(named[b"grpc-timeout"])
        except ValueError:
            refusal = invalid("grpc-timeout", "is a number of up to eight digits and one of H M S m u n")
    given = named.get(b"x-request-id", b"")[:128].decode("latin-1")
    return CallHead(
        method,
        named.get(b"authorization"),
        seconds,
        named.get(b"grpc-encoding", b"identity"),
        given,
        refusal,
    )


def _read_timeout(value: bytes) -> float:
    number, unit = value[:-1], value[-1:]
    if not number.isdigit() or len(number) > _MOST_DIGITS or unit not in _SECONDS:
        raise ValueError(value)
    return int(number) * _SECONDS[unit]


def inflated(data: bytes, encoding: bytes, most: int) -> bytes:
    """A compressed message as it was; refused where it is none, or longer than `most`."""
    if encoding not in (b"gzip", b"deflate"):
        raise Refused(Refusal.WRONG_METHOD, "messages may be compressed by gzip or deflate", "grpc-encoding")
    stream = zlib.decompressobj(_EITHER_FORMAT)
    try:
        message = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise invalid("request", f"is not compressed as it says: {error}") from None
    if len(message) > most:
        raise too_large(most)
    if not stream.eof:
        raise invalid("request", "its compression ends early")
    return message


def too_large(most: int) -> Refused:
    """The refusal of a message."""
    return Refused(Refusal.TOO_LARGE, f"is larger than {most} bytes", "request")
