"""What a connection of HTTP/2 sends: answers within its client's windows, and what is owed beyond them."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from proreus.serving.server.http2 import frames as f
from proreus.serving.server.http2.frames import ConnectionFault, ErrorCode, frame

STREAM_WINDOW = 256 * 1024
"""Bytes of a request that a client may send ahead of us."""
_SENT_PER_STRAIN = 4_096
"""Bytes of answers that make up for a frame of control."""
_TRIPLE = struct.Struct(">HBBBI")
_LAST = f.END_HEADERS | f.END_STREAM


class Stream:
    """One request and its answer."""

    __slots__ = (
        "closing_block",
        "connection",
        "done",
        "ended",
        "headed",
        "id",
        "unsent",
        "window_in",
        "window_out",
    )

    def __init__(self, connection: AnsweringSide, number: int, *, ended: bool) -> None:
        self.connection, self.id = connection, number
        self.ended = ended
        """Whether the client has said all."""
        self.done = False
        """Whether we have, or nobody listens any more."""
        self.headed = False
        self.unsent: bytearray | None = None
        self.closing_block: bytes | None = None
        self.window_in, self.window_out = STREAM_WINDOW, connection.stream_window_out


class AnsweringSide(asyncio.Protocol):
    """The half of a connection that sends; `connection` has the other."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # there from connection_made on
        self.streams: dict[int, Any] = {}
        self.unanswerable = 0
        """Streams whose request is not there yet."""
        self.stream_window_out = self._window_out = f.DEFAULT_WINDOW
        self._out: list[bytes] = []
        self._owing: dict[int, Any] = {}
        self._owed = self._written = 0
        self._in_a_row = self._last = 0
        """Calls that were answered in a row, and the last stream that was opened."""
        self._strain = 0.0

    def answer(self, stream: Stream, head: bytes, data: bytes, trailers: bytes) -> None:
        """All of an answer to a stream that was not answered yet: headers, data, trailers."""
        self._in_a_row += 1
        size, number = len(data), stream.id
        if size > f.LARGEST_FRAME or size > stream.window_out or size > self._window_out or stream.headed:
            self.send(stream, head, data, trailers)
            return
        self._window_out -= size
        pack = _TRIPLE.pack
        self._out += (
            pack(len(head) >> 8, len(head) & 0xFF, f.HEADERS, f.END_HEADERS, number),
            head,
            pack(size >> 8, size & 0xFF, f.DATA, 0, number),
            data,
            pack(len(trailers) >> 8, len(trailers) & 0xFF, f.HEADERS, _LAST, number),
            trailers,
        )
        self._finished(stream)

    def send(self, stream: Stream, head: bytes, data: bytes, trailers: bytes | None = None) -> None:
        """More of an answer; with trailers it is the last of it."""
        if not stream.headed:
            stream.headed = True
            self._out.append(frame(f.HEADERS, f.END_HEADERS, stream.id, head))
        if stream.unsent is None:
            stream.unsent = bytearray()
        stream.unsent += data
        self._owed += len(data)
        stream.closing_block = trailers
        self._send(stream)

    def end(self, stream: Stream, block: bytes) -> None:
        """The end of an answer without data: its only headers, or its trailers."""
        self._in_a_row += 1
        if stream.unsent:
            stream.closing_block = block
            return
        self._out.append(frame(f.HEADERS, _LAST, stream.id, block))
        self._finished(stream)

    def _send(self, stream: Stream) -> None:
        """As much of what is owed as the windows allow."""
        unsent = stream.unsent or bytearray()
        while unsent:
            size = min(len(unsent), f.LARGEST_FRAME, stream.window_out, self._window_out)
            if size <= 0:
                self._owing[stream.id] = stream
                return
            self._out.append(frame(f.DATA, 0, stream.id, bytes(unsent[:size])))
            del unsent[:size]
            self._owed -= size
            stream.window_out -= size
            self._window_out -= size
            self._strain = max(0.0, self._strain - size / _SENT_PER_STRAIN)
        self._owing.pop(stream.id, None)
        if stream.closing_block is not None:
            self._out.append(frame(f.HEADERS, _LAST, stream.id, stream.closing_block))
            self._finished(stream)

    def _send_owed(self) -> None:
        for stream in tuple(self._owing.values()):
            if self._window_out <= 0:
                return
            self._send(stream)

    def _finished(self, stream: Stream) -> None:
        self._strain = max(0.0, self._strain - 2)
        if not stream.ended:
            self._out.append(f.reset(stream.id, ErrorCode.NO_ERROR))
        self._remove(stream)

    def _remove(self, stream: Stream) -> None:
        stream.done = True
        self.streams.pop(stream.id, None)
        if stream.unsent:
            self._owed -= len(stream.unsent)
            stream.unsent = None
            self._owing.pop(stream.id, None)

    def flush(self) -> None:
        """Send what was said so far."""
        if self._out and not self._transport.is_closing():
            data = b"".join(self._out)
            self._written += len(data)
            self._transport.write(data)
        self._out.clear()

    def _widen(self, number: int, more: int) -> None:
        if not more:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if not number:
            self._window_out = self._wider(self._window_out, more)
            self._send_owed()
            return
        stream = self.streams.get(number)
        if stream is not None:
            stream.window_out = self._wider(stream.window_out, more)
            if number in self._owing:
                self._send(stream)
        elif number > self._last:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the window of a stream that has not begun")

    @staticmethod
    def _wider(window: int, more: int) -> int:
        if window + more > f.WIDEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too wide")
        return window + more
