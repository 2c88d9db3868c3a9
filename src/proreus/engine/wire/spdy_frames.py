"""The frames of SPDY/3.1, as far as Kubernetes' clients and runtimes use them; without I/O.

Bounded whatever the other end sends: a control frame in its length, a block of headers in its unpacked size
and number, and data is handed on as it comes, however long its frame claims to be.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from proreus.engine.wire.spdy_dictionary import DICTIONARY

_VERSION = 3
_FIN = 0x01
_LONGEST_CONTROL = 16 * 1024
_MOST_HEADER_BYTES, _MOST_HEADERS = 64 * 1024, 64
_LARGEST_DATA = 32 * 1024
_STREAM = 0x7FFFFFFF


class _Kind(IntEnum):
    """Of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class BadFrame(ValueError):
    """The other end does not speak SPDY/3.1, or says too much."""


@dataclass(frozen=True, slots=True)
class SynStream:
    """A stream begins."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False
    """Whether nothing more comes from the one who began it."""


@dataclass(frozen=True, slots=True)
class SynReply:
    """A stream is accepted."""

    stream: int
    headers: Mapping[str, str] = field(default_factory=dict)
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream: a frame's, or a part of them."""

    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream is cut off."""

    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To be sent back."""

    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """No new streams."""

    last: int
    status: int = 0


Frame = SynStream | SynReply | Data | Reset | Ping | GoAway


class FrameReader:
    """Bytes in, frames out."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._data: tuple[int, int, bool] | None = None
        """Of a frame of data: its stream, the bytes that are yet to come, whether it is the last."""
        self._unpacker = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; raises `BadFrame`."""
        self._held += data
        while True:
            if self._data is not None:
                stream, left, fin = self._data
                piece = bytes(self._held[:left])
                del self._held[: len(piece)]
                left -= len(piece)
                self._data = (stream, left, fin) if left else None
                if piece or not left:
                    yield Data(stream, piece, fin and not left)
                if left:
                    return
                continue
            if len(self._held) < 8:
                return
            first, second = struct.unpack_from("!II", self._held)
            flags, length = second >> 24, second & 0xFFFFFF
            if not first & 0x80000000:
                del self._held[:8]
                self._data = (first & _STREAM, length, bool(flags & _FIN))
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise BadFrame("a frame of another version than 3")
            if length > _LONGEST_CONTROL:
                raise BadFrame(f"a control frame of {length} bytes")
            if len(self._held) < 8 + length:
                return
            body = bytes(self._held[8 : 8 + length])
            del self._held[: 8 + length]
            frame = self._control(first & 0xFFFF, flags, body)
            if frame is not None:
                yield frame

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        fin = bool(flags & _FIN)
        try:
            match kind:
                case _Kind.SYN_STREAM:
                    (stream,) = struct.unpack_from("!I", body)
                    return SynStream(stream & _STREAM, self._headers(body[10:]), fin)
                case _Kind.SYN_REPLY:
                    (stream,) = struct.unpack_from("!I", body)
                    return SynReply(stream & _STREAM, self._headers(body[4:]), fin)
                case _Kind.RST_STREAM:
                    stream, status = struct.unpack("!II", body)
                    return Reset(stream & _STREAM, status)
                case _Kind.PING:
                    return Ping(*struct.unpack("!I", body))
                case _Kind.GOAWAY:
                    last, status = struct.unpack("!II", body)
                    return GoAway(last & _STREAM, status)
                case _Kind.HEADERS:  # of no use to anybody, but their packing must be followed
                    (stream,) = struct.unpack_from("!I", body)
                    self._headers(body[4:])
                    return Data(stream & _STREAM, b"", True) if fin else None
                case _Kind.SETTINGS | _Kind.WINDOW_UPDATE:
                    return None  # nobody keeps windows: TCP holds back whoever sends too much
                case _:
                    raise BadFrame(f"a control frame of unknown type {kind}")
        except struct.error:
            raise BadFrame(f"a control frame of type {kind} with {len(body)} bytes") from None

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpacker.decompress(packed, _MOST_HEADER_BYTES)
        except zlib.error:
            raise BadFrame("headers that cannot be unpacked") from None
        if self._unpacker.unconsumed_tail or self._unpacker.eof:
            raise BadFrame(f"headers of more than {_MOST_HEADER_BYTES} bytes")
        (count,) = struct.unpack_from("!I", block)
        if count > _MOST_HEADERS:
            raise BadFrame(f"more than {_MOST_HEADERS} headers")
        place, words = 4, []
        for _ in range(2 * count):
            (length,) = struct.unpack_from("!I", block, place)
            word = block[place + 4 : place + 4 + length]
            if len(word) != length:
                raise BadFrame("headers that are cut short")
            words.append(word.decode("latin-1"))
            place += 4 + length
        return dict(zip((name.lower() for name in words[::2]), words[1::2], strict=True))


class FrameWriter:
    """Frames in, bytes out; headers are packed in the order in which they are sent."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def write(self, frame: Frame) -> bytes:
        """One frame; data in as many as it needs."""
        match frame:
            case SynStream(stream, headers, fin):
                body = struct.pack("!IIH", stream, 0, 0) + self._headers(headers)
                return _control(_Kind.SYN_STREAM, body, fin)
            case SynReply(stream, headers, fin):
                return _control(_Kind.SYN_REPLY, struct.pack("!I", stream) + self._headers(headers), fin)
            case Reset(stream, status):
                return _control(_Kind.RST_STREAM, struct.pack("!II", stream, status))
            case Ping(id):
                return _control(_Kind.PING, struct.pack("!I", id))
            case GoAway(last, status):
                return _control(_Kind.GOAWAY, struct.pack("!II", last, status))
            case Data(stream, data, fin):
                cuts = range(0, len(data), _LARGEST_DATA) or (0,)
                pieces = [data[at : at + _LARGEST_DATA] for at in cuts]
                return b"".join(
                    struct.pack("!II", stream, ((_FIN << 24) if fin and last else 0) | len(piece)) + piece
                    for piece, last in zip(pieces, [*[False] * (len(pieces) - 1), True], strict=True)
                )

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        words = [word.encode("latin-1") for pair in headers.items() for word in pair]
        block = struct.pack("!I", len(headers)) + b"".join(
            struct.pack("!I", len(word)) + word for word in words
        )
        return self._packer.compress(block) + self._packer.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: _Kind, body: bytes, fin: bool = False) -> bytes:
    return (
        struct.pack("!II", 0x80000000 | _VERSION << 16 | kind, (_FIN << 24 if fin else 0) | len(body)) + body
    )
