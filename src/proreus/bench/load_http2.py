"""As much of HTTP/2 as a gRPC client needs that asks one unary call after the other.

A gRPC library as the generator of load would cost more than the server it loads. Answers are not decoded: a
call has succeeded when a message came before its stream ended (a refusal has no message).
"""

from __future__ import annotations

import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
_END_STREAM, _END_HEADERS, _ACK = 0x1, 0x4, 0x1
_INITIAL_WINDOW = 4
_LARGEST_FRAME = 16_384
_WIDE = 2**31 - 1
_DEFAULT_WINDOW = 65_535
_FRAME_HEAD = 9


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _text(value: str) -> bytes:
    """A header's string in HPACK, not compressed."""
    encoded = value.encode()
    assert len(encoded) < 127, "longer strings need a longer length"
    return bytes((len(encoded),)) + encoded


class Http2Exchange:
    """One connection to a gRPC server, one call at a time."""

    over = False

    def __init__(self, host: str, port: int, path: str) -> None:
        # HPACK: entries of the static table by number, everything else literal and never remembered.
        self._headers = b"".join(
            (
                b"\x83\x86",  # :method POST, :scheme http
                b"\x04" + _text(path),  # :path
                b"\x01" + _text(f"{host}:{port}"),  # :authority
                b"\x0f\x10" + _text("application/grpc"),  # content-type
                b"\x00" + _text("te") + _text("trailers"),
            )
        )
        self._stream = -1
        self._buffer = b""
        self._answered = False
        self._initial = _DEFAULT_WINDOW
        self._connection_window = _DEFAULT_WINDOW
        self._stream_window = 0
        self._unsent = b""
        self._received = 0

    def greeting(self) -> bytes:
        """The preface, our settings, and a wide window for the answers."""
        wide = _frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, _WIDE))
        return _PREFACE + wide + _frame(_WINDOW, 0, 0, struct.pack(">I", _WIDE - _DEFAULT_WINDOW))

    def request(self, body: bytes) -> bytes:
        """A new stream with one message; what the windows do not allow yet follows later."""
        self._stream += 2
        self._answered = False
        self._stream_window = self._initial
        self._unsent = b"\x00" + struct.pack(">I", len(body)) + body
        return _frame(_HEADERS, _END_HEADERS, self._stream, self._headers) + self._sendable()

    def _sendable(self) -> bytes:
        frames = []
        while self._unsent:
            size = min(len(self._unsent), _LARGEST_FRAME, self._stream_window, self._connection_window)
            if size <= 0:
                break
            piece, self._unsent = self._unsent[:size], self._unsent[size:]
            self._stream_window -= size
            self._connection_window -= size
            frames.append(_frame(_DATA, 0 if self._unsent else _END_STREAM, self._stream, piece))
        return b"".join(frames)

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Walks over the frames that came."""
        buffer = self._buffer + data if self._buffer else data
        at, done, reply = 0, 0, b""
        while len(buffer) - at >= _FRAME_HEAD:
            size = int.from_bytes(buffer[at : at + 3], "big")
            end = at + _FRAME_HEAD + size
            if end > len(buffer):
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            payload = buffer[at + _FRAME_HEAD : end]
            at = end
            if kind == _GOAWAY:
                raise ConnectionError("the gRPC server ends the connection")
            reply += self._control(kind, flags, stream, payload)
            if stream == self._stream:
                self._answered |= kind == _DATA and size > 0
                if kind == _RESET:
                    done = -1
                elif kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                    done = 1 if self._answered else -1
        self._buffer = buffer[at:]
        return done, reply

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """What a frame that is no answer wants of us."""
        if kind == _SETTINGS and not flags & _ACK:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == _INITIAL_WINDOW:
                    self._stream_window += value - self._initial
                    self._initial = value
            return _frame(_SETTINGS, _ACK, 0, b"") + self._sendable()
        if kind == _PING and not flags & _ACK:
            return _frame(_PING, _ACK, 0, payload)
        if kind == _WINDOW:
            (more,) = struct.unpack(">I", payload)
            if stream == 0:
                self._connection_window += more
            elif stream == self._stream:
                self._stream_window += more
            return self._sendable()
        if kind == _DATA and payload:
            self._received += len(payload)
            if self._received > _WIDE // 4:
                back, self._received = self._received, 0
                return _frame(_WINDOW, 0, 0, struct.pack(">I", back))
        return b""
