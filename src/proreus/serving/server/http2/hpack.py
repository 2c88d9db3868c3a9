"""Header compression of HTTP/2 (RFC 7541): a decoder with limits, and literals for what is answered.

Who decodes for others keeps a table that they fill. It is small here, and so is what a block of headers may
become: a few bytes can name long entries again and again.
"""

from __future__ import annotations

from collections import deque

from proreus.serving.server.http2.frames import ConnectionFault, ErrorCode
from proreus.serving.server.http2.huffman import decoded

Header = tuple[bytes, bytes]
TABLE_BYTES = 4_096
"""Of the decoder's table: what every client may count on."""
MOST_HEADERS = 128
LARGEST_LIST = 16 * 1024
"""Bytes of all headers of a request as RFC 7541 counts them: with 32 for each."""
_ENTRY_BYTES = 32
_MOST_LENGTH_BITS = 28

# The static table: names with their values, in the order of RFC 7541, appendix A.
_STATIC_TEXT = """
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate
"""
_STATIC: tuple[Header, ...] = tuple(
    (line.partition(b" ")[0], line.partition(b" ")[2]) for line in _STATIC_TEXT.encode().split(b"\n")[1:-1]
)


class Decoder:
    """Of one connection: what its client has put into the table is known to later blocks."""

    def __init__(self) -> None:
        self._table: deque[Header] = deque()
        """The newest first."""
        self._size, self._most = 0, TABLE_BYTES
        self.changes = 0
        """How often the table has changed: a block that changed nothing means the same until it does."""

    def headers(self, block: bytes) -> list[Header]:
        """The headers of a block; `ConnectionFault` where it is none, or becomes too much."""
        try:
            return self._headers(block)
        except IndexError:
            raise _fault("a block of headers ends early") from None

    def _headers(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        at, total = 0, 0
        while at < len(block):
            first = block[at]
            if first & 0x80:  # an entry of the table
                index, at = _number(block, at, 7)
                header = self._entry(index)
            elif first & 0xE0 == 0x20:  # the table's size
                size, at = _number(block, at, 5)
                if headers or size > TABLE_BYTES:
                    raise _fault("the table changes its size to what it may not have")
                self._most = size
                self._shrink()
                continue
            else:
                header, at = self._literal(block, at, remembered=bool(first & 0x40))
            total += len(header[0]) + len(header[1]) + _ENTRY_BYTES
            headers.append(header)
            if total > LARGEST_LIST or len(headers) > MOST_HEADERS:
                says = f"headers are at most {MOST_HEADERS} and {LARGEST_LIST} bytes"
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, says)
        return headers

    def _literal(self, block: bytes, at: int, *, remembered: bool) -> tuple[Header, int]:
        index, at = _number(block, at, 6 if remembered else 4)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        if remembered:
            self._table.appendleft((name, value))
            self._size += len(name) + len(value) + _ENTRY_BYTES
            self._shrink()
        return (name, value), at

    def _entry(self, index: int) -> Header:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        if not len(_STATIC) < index <= len(_STATIC) + len(self._table):
            raise _fault("an entry that the table does not have")
        return self._table[index - len(_STATIC) - 1]

    def _shrink(self) -> None:
        self.changes += 1
        while self._size > self._most:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + _ENTRY_BYTES


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number whose first bits share a byte; where the next thing begins."""
    most = (1 << bits) - 1
    number, at = block[at] & most, at + 1
    if number < most:
        return number, at
    shift = 0
    while True:
        byte, at = block[at], at + 1
        number += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
        if shift > _MOST_LENGTH_BITS:
            raise _fault("a number that is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    short = block[at] & 0x80
    length, at = _number(block, at, 7)
    if at + length > len(block):
        raise _fault("a string that is longer than its block")
    text = block[at : at + length]
    if short:
        spelled = decoded(text)
        if spelled is None:
            raise _fault("a string that is no Huffman code")
        text = spelled
    return text, at + length


def _fault(says: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, says)


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is not remembered, as it stands in a block."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


def _length(size: int) -> bytes:
    """The length of a string that is not compressed."""
    if size < 0x7F:
        return bytes((size,))
    more, size = [0x7F], size - 0x7F
    while size >= 0x80:
        more.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*more, size))
