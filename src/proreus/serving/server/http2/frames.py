"""Frames of HTTP/2 (RFC 9113), and the errors that end a connection or a stream."""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD = 9
LARGEST_FRAME = 16_384
"""Of a payload, in either direction: nobody has to take more."""
DEFAULT_WINDOW = 65_535
WIDEST_WINDOW = 2**31 - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0x0, 0x1, 0x2, 0x3, 0x4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0x5, 0x6, 0x7, 0x8, 0x9
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 0x1, 0x2, 0x3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 0x4, 0x5, 0x6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class ConnectionFault(Exception):
    """What a client did that ends its connection."""

    def __init__(self, code: ErrorCode, says: str) -> None:
        super().__init__(says)
        self.code = code


_HEAD = struct.Struct(">HBBBI")
_U32 = struct.Struct(">I")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame; the payload has at most `LARGEST_FRAME` bytes."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The pairs of a SETTINGS frame."""
    if len(payload) % 6:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings come in pairs of six bytes")
    return list(struct.iter_unpack(">HI", payload))


def window_update(stream: int, more: int) -> bytes:
    """A WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, _U32.pack(more))


def reset(stream: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, _U32.pack(code))


def go_away(last: int, code: ErrorCode, says: str = "") -> bytes:
    """A GOAWAY frame: streams after `last` are not answered."""
    return frame(GOAWAY, 0, 0, _U32.pack(last) + _U32.pack(code) + says.encode())


def number_of(payload: bytes) -> int:
    """The one number of a WINDOW_UPDATE or RST_STREAM frame."""
    if len(payload) != _U32.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the frame has four bytes")
    number: int = _U32.unpack(payload)[0]
    return number


def without_padding(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS as it was before it was padded."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]
