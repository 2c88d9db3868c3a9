"""Answers: whole ones, and streams that go on until somebody ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from proreus.engine.api.server.request import Receive, Send
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.offload import LoopPauses

Header = tuple[bytes, bytes]
_JSON = b"application/json"
_PART_BYTES = 64 * 1024
_REFUSAL_SECONDS = 0.5
"""How long an answer that may be refused waits for its first piece."""
_encoder = msgspec.json.Encoder()
encode = _encoder.encode


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    body: bytes
    status: int = 200
    media_type: bytes = _JSON
    headers: tuple[Header, ...] = ()

    @classmethod
    def of(cls, content: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
        """An object as JSON."""
        return cls(encode(content), status, _JSON, headers)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces, each sent when it is there."""

    pieces: AsyncGenerator[bytes, None]
    media_type: bytes = _JSON
    may_refuse: bool = False
    """Whether it may turn out that there is nothing to send: then the answer begins a little later, and a
    refusal that comes after that is its last line."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The connection leaves HTTP; what goes on in it then."""

    run: Callable[[], Awaitable[None]]


Answer = Reply | Stream | Switch


async def send_reply(reply: Reply, send: Send) -> None:
    headers = [(b"content-type", reply.media_type), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *reply.headers]})
    await send({"type": "http.response.body", "body": reply.body})


async def send_stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Piece by piece, until it ends or the client has gone; raises `StatusError` where nothing was sent
    yet.
    """
    headers = [(b"content-type", stream.media_type), (b"cache-control", b"no-cache, private")]
    sending = asyncio.ensure_future(_send_pieces(stream, send, headers))
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


async def _send_pieces(stream: Stream, send: Send, headers: list[Header]) -> None:
    async with aclosing(stream.pieces) as pieces:
        first = asyncio.ensure_future(anext(pieces, None))
        try:
            if stream.may_refuse:
                await asyncio.wait((first,), timeout=_REFUSAL_SECONDS)
                if first.done():
                    first.result()
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # The client learns at once that it is heard, though nothing may happen for long.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            await _send_rest(first, pieces, send)
        finally:
            first.cancel()
            await asyncio.wait((first,))
    await send({"type": "http.response.body", "body": b""})


async def _send_rest(
    first: asyncio.Future[bytes | None], pieces: AsyncGenerator[bytes, None], send: Send
) -> None:
    pauses = LoopPauses()
    try:
        piece = await first
        while piece is not None:
            # Of a client that reads nothing no more than one part waits, however long a piece is.
            for start in range(0, len(piece), _PART_BYTES):
                part = piece if len(piece) <= _PART_BYTES else piece[start : start + _PART_BYTES]
                await send({"type": "http.response.body", "body": part, "more_body": True})
                if pauses.due:  # whoever takes all that is sent would have the loop to itself
                    await pauses.take()
            piece = await anext(pieces, None)
    except StatusError as refused:  # the client has its 200 already
        await send({"type": "http.response.body", "body": f"{refused}\n".encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
