"""A connection of HTTP/2 as its server: frames in, frames out, windows, and limits on all of it.

What a stream is about is for others to say (`Calls`). Everything that has come in one piece is answered in
one piece, within the call that delivered it. What costs us more than it costs the client (resets, pings,
settings, empty frames: CVE-2023-44487, CVE-2019-9511 to 9518) counts as strain, which answered calls and time
take away again; headers are bounded however many frames they come in (CVE-2024-27316).
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from proreus.httpserver.connection_limits import Crowd, Step
from proreus.serving.server.http2 import frames as f
from proreus.serving.server.http2.answers import STREAM_WINDOW, AnsweringSide
from proreus.serving.server.http2.frames import ConnectionFault, ErrorCode, frame
from proreus.serving.server.http2.hpack import LARGEST_LIST, Decoder, Header

MOST_STREAMS = 128
"""Of one connection at once."""
CONNECTION_WINDOW = 1024 * 1024
"""Bytes that a client may send ahead of us, on all streams together."""
_LARGEST_BLOCK = 8 * 1024
"""Bytes of the headers of a request, compressed."""
_MOST_PIECES = 8
"""Frames that the headers of a request may come in."""
_MOST_IN_A_ROW = 16
"""Calls of one connection that are answered before others have their turn."""
_MOST_STRAIN, _CALMED_PER_SECOND = 1_000, 500
_SMALL_DATA = 256
"""Bytes of a frame that is hardly worth its head."""
_MOST_OWED = 32 * 1024 * 1024
"""Bytes of answers that wait for a client's windows; who owes more gets no more calls."""
_MOVED = 16 * 1024
"""Bytes that a client takes between two looks at it, if it takes answers at all."""
_MOST_HEADS = 32


class Calls(Protocol):
    """What streams are about."""

    def head(self, headers: list[Header]) -> Any:
        """The meaning of a request's headers; kept for requests with the same."""

    def open(self, connection: Http2Connection, number: int, head: Any, *, ended: bool) -> None:
        """A request has begun; who keeps it puts it into the connection's streams."""

    def data(self, stream: Any, data: bytes) -> None:
        """More of a request, or its end."""

    def gone(self, stream: Any) -> None:
        """Nobody waits for the answer any more."""


class Http2Connection(AnsweringSide):
    """See the module; `Crowd` watches over it."""

    def __init__(self, calls: Calls, crowd: Crowd, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._calls, self._crowd, self.loop = calls, crowd, loop
        self.address = ""
        self._window_in = CONNECTION_WINDOW
        self._decoder = Decoder()
        self._heads: dict[bytes, Any] = {}
        self._greeted = self._paused = self._waiting_turn = self._going = False
        self._rest = b""
        self._block: tuple[int, int, bytes, int] | None = None
        """Stream, flags, what has come of a block of headers, and in how many pieces."""
        self._taken = 0
        self._answers_to = 0
        """The last stream that is answered: those that come after a GOAWAY are not."""
        self._strained_at = loop.time()
        self.step, self.since = Step.HEAD, loop.time()
        self.unread_since: float | None = None

    # What `Crowd` asks.

    @property
    def waits_for_us(self) -> bool:
        return len(self.streams) > self.unanswerable

    @property
    def held_back(self) -> bool:
        return self._paused

    @property
    def unread(self) -> int:
        waiting = self._transport.get_write_buffer_size() + self._owed
        if self._written - waiting >= self._taken + _MOVED:  # it takes answers, though not all at once
            self._taken = self._written - waiting
            self.unread_since = None
        return waiting

    @property
    def leaving(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """When what was answered has been taken."""
        self._end(ErrorCode.NO_ERROR, "")

    def abort(self) -> None:
        self._transport.abort()

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._crowd.welcome(self)
        first = {
            f.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
            f.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            f.MAX_HEADER_LIST_SIZE: LARGEST_LIST,
        }
        self._out += (f.settings(first), f.window_update(0, CONNECTION_WINDOW - f.DEFAULT_WINDOW))
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.farewell(self)
        self._rest, self._out = b"", []
        self._forget_streams()

    def pause_writing(self) -> None:
        # Who does not take answers gets no more of them.
        self._pause()

    def resume_writing(self) -> None:
        if self._paused and not self._waiting_turn:
            self._paused = False
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._waiting_turn:  # it came although nothing was to be read
            self._rest += data
            return
        self._in_a_row = 0
        self._read(self._rest + data if self._rest else data)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Read what was left when it was the others' turn."""
        self._waiting_turn = False
        if self._transport.is_closing():
            return
        self._in_a_row = 0
        rest, self._rest = self._rest, b""
        self._read(rest)
        if not self._waiting_turn:
            self.resume_writing()

    def _read(self, data: bytes) -> None:
        at = 0
        try:
            if not self._greeted:
                at = self._greet(data)
            while len(data) - at >= f.FRAME_HEAD:
                size = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
                if size > f.LARGEST_FRAME:
                    raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"{size} bytes in one frame")
                end = at + f.FRAME_HEAD + size
                if end > len(data):
                    break
                if self._in_a_row >= _MOST_IN_A_ROW:
                    self._waiting_turn = True
                    self._pause()
                    self.loop.call_soon(self._go_on)
                    break
                kind, flags = data[at + 3], data[at + 4]
                number = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
                self._frame(kind, flags, number, data[at + f.FRAME_HEAD : end])
                at = end
        except ConnectionFault as fault:
            self._end(fault.code, str(fault))
            return
        self._rest = data[at:]
        if self._rest or self._block is not None:
            if at or self.step is not Step.HEAD:
                self.step, self.since = Step.HEAD, self.loop.time()
        elif self._greeted:
            self.step, self.since = Step.IDLE, self.loop.time()
        self.flush()

    def _greet(self, data: bytes) -> int:
        """How long the preface is, if it is there."""
        if not f.PREFACE.startswith(data[: len(f.PREFACE)]):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is a gRPC server: it speaks HTTP/2 alone")
        if len(data) < len(f.PREFACE):
            return 0
        self._greeted = True
        return len(f.PREFACE)

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and kind != f.CONTINUATION:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "headers are not complete")
        if kind == f.DATA:
            self._data(flags, number, payload)
        elif kind == f.HEADERS:
            self._headers(flags, number, payload)
        else:
            self._control(kind, flags, number, payload)

    # Requests.

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        block = f.without_padding(flags, payload)
        if flags & f.WITH_PRIORITY:
            if len(block) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a priority has five bytes")
            block = block[5:]
        if flags & f.END_HEADERS:
            self._headed(flags, number, block)
        else:
            self._block = (number, flags, block, 1)

    def _continued(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "nothing is to be continued")
        _, first, block, pieces = self._block
        block += payload
        if len(block) > _LARGEST_BLOCK or pieces >= _MOST_PIECES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many headers")
        if flags & f.END_HEADERS:
            self._block = None
            self._headed(first, number, block)
        else:
            self._block = (number, first, block, pieces + 1)

    def _headed(self, flags: int, number: int, block: bytes) -> None:
        head = self._heads.get(block)
        if head is None:
            head = self._read_head(block)
        ended = bool(flags & f.END_STREAM)
        if number <= self._last:
            self._trailers(number, ended=ended)
            return
        if not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams have odd numbers")
        self._last = number
        if self._going:
            self._out.append(f.reset(number, ErrorCode.REFUSED_STREAM))
            return
        self._answers_to = number
        if len(self.streams) >= MOST_STREAMS or self._owed > _MOST_OWED:
            self._out.append(f.reset(number, ErrorCode.REFUSED_STREAM))
            self._count_strain()
            return
        self._calls.open(self, number, head, ended=ended)

    def _read_head(self, block: bytes) -> Any:
        if len(block) > _LARGEST_BLOCK:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"over {_LARGEST_BLOCK} bytes of headers")
        changes = self._decoder.changes
        head = self._calls.head(self._decoder.headers(block))
        if self._decoder.changes != changes or len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        if self._decoder.changes == changes:
            self._heads[block] = head
        return head

    def _trailers(self, number: int, *, ended: bool) -> None:
        """Headers behind a request: nothing in them counts but its end."""
        stream = self.streams.get(number)
        if stream is None or stream.ended:
            self._count_strain()
        elif not ended:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "headers in the middle of a request")
        else:
            stream.ended = True
            self._calls.data(stream, b"")

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._window_in -= size
        if self._window_in < CONNECTION_WINDOW // 2:
            if self._window_in < 0:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the connection's window")
            self._out.append(f.window_update(0, CONNECTION_WINDOW - self._window_in))
            self._window_in = CONNECTION_WINDOW
        stream = self.streams.get(number)
        if stream is None or stream.ended:
            if not number & 1 or number > self._last:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "data of a stream that has not begun")
            self._count_strain()  # it was answered before all of it had come
            return
        if flags & f.PADDED:
            payload = f.without_padding(flags, payload)
        if flags & f.END_STREAM:
            stream.ended = True
        else:
            if len(payload) < _SMALL_DATA:
                self._count_strain()
            stream.window_in -= size
            if stream.window_in < STREAM_WINDOW // 2:
                if stream.window_in < 0:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the stream's window")
                self._out.append(f.window_update(number, STREAM_WINDOW - stream.window_in))
                stream.window_in = STREAM_WINDOW
        self._calls.data(stream, payload)

    # Everything else that a client sends.

    def _control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == f.CONTINUATION:
            self._continued(flags, number, payload)
            return
        self._count_strain()
        if kind == f.WINDOW_UPDATE:
            self._widen(number, f.number_of(payload) & 0x7FFFFFFF)
        elif kind == f.PING:
            if len(payload) != 8 or number:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes, on stream 0")
            if not flags & f.ACK:
                self._out.append(frame(f.PING, f.ACK, 0, payload))
        elif kind == f.SETTINGS:
            if number or (flags & f.ACK and payload):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings are of the connection")
            if not flags & f.ACK:
                self._set(f.read_settings(payload))
                self._out.append(frame(f.SETTINGS, f.ACK, 0))
        elif kind == f.RST_STREAM:
            f.number_of(payload)
            if not number or number > self._last:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream that has not begun is reset")
            stream = self.streams.get(number)
            if stream is not None:
                self._in_a_row += 1
                self._remove(stream)
                self._calls.gone(stream)
        elif kind == f.PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients push nothing")

    def _set(self, values: list[tuple[int, int]]) -> None:
        for key, value in values:
            if key == f.INITIAL_WINDOW_SIZE:
                if value > f.WIDEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value}")
                more, self.stream_window_out = value - self.stream_window_out, value
                for stream in self.streams.values():
                    stream.window_out = self._wider(stream.window_out, more)
                self._send_owed()
            elif (key == f.ENABLE_PUSH and value > 1) or (
                key == f.MAX_FRAME_SIZE and not f.LARGEST_FRAME <= value < 1 << 24
            ):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"setting {key} cannot be {value}")

    def _count_strain(self) -> None:
        self._strain += 1
        if self._strain > _MOST_STRAIN:
            now = self.loop.time()
            calmed = _CALMED_PER_SECOND * (now - self._strained_at)
            self._strain, self._strained_at = max(0.0, self._strain - calmed), now
            if self._strain > _MOST_STRAIN:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too much beside calls")

    # Ends.

    def go_away(self) -> None:
        """Answer what has begun and nothing more."""
        if not self._going:
            self._going = True
            self._out.append(f.go_away(self._answers_to, ErrorCode.NO_ERROR))
            self.flush()

    def _end(self, code: ErrorCode, says: str) -> None:
        if not self._transport.is_closing():
            self._going = True
            self._out.append(f.go_away(self._answers_to, code, says))
            self.flush()
            self._transport.close()
        self._rest = b""
        self._forget_streams()

    def _forget_streams(self) -> None:
        for stream in tuple(self.streams.values()):
            self._remove(stream)
            self._calls.gone(stream)
