"""SPDY's frames, without I/O: what is written is read whatever the cuts, and nonsense is refused."""

from __future__ import annotations

import asyncio
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.engine.wire.duplex import BoundedPipe
from proreus.engine.wire.spdy import SpdySession, SpdyStream
from proreus.engine.wire.spdy_dictionary import DICTIONARY
from proreus.engine.wire.spdy_frames import (
    BadFrame,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    Reset,
    SynReply,
    SynStream,
)

_IDS = st.integers(0, 2**31 - 1)
_TEXT = st.text(st.characters(max_codepoint=255), max_size=20)
_HEADERS = st.dictionaries(_TEXT.map(str.lower).filter(str.islower), _TEXT, max_size=5)
_FRAMES = st.one_of(
    st.builds(SynStream, _IDS, _HEADERS, st.booleans()),
    st.builds(SynReply, _IDS, _HEADERS, st.booleans()),
    st.builds(Reset, _IDS, st.integers(0, 2**32 - 1)),
    st.builds(Ping, st.integers(0, 2**32 - 1)),
    st.builds(GoAway, _IDS, st.integers(0, 2**32 - 1)),
    st.builds(Data, _IDS, st.binary(max_size=50), st.booleans()),
)


def _joined(frames: list[Frame]) -> list[Frame]:
    """Data in as few pieces as it can be; empty pieces that end nothing are none."""
    found: list[Frame] = []
    for frame in frames:
        last = found[-1] if found else None
        if (
            isinstance(frame, Data)
            and isinstance(last, Data)
            and last.stream == frame.stream
            and not last.fin
        ):
            found[-1] = Data(frame.stream, last.data + frame.data, frame.fin)
        else:
            found.append(frame)
    return [one for one in found if not isinstance(one, Data) or one.data or one.fin]


@given(st.lists(_FRAMES, max_size=6), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_whatever_the_cuts(frames: list[Frame], size: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    data = b"".join(writer.write(frame) for frame in frames)
    read = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
    assert _joined(read) == _joined(frames)


def test_long_data_is_cut_into_frames() -> None:
    data = b"x" * 100_000
    assert _joined(list(FrameReader().feed(FrameWriter().write(Data(1, data, True))))) == [
        Data(1, data, True)
    ]


def test_the_dictionary_is_the_specification_s() -> None:
    assert len(DICTIONARY) == 1423 and zlib.adler32(DICTIONARY) == 0xE3C6A7C2


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_nonsense_is_read_or_refused(data: bytes) -> None:
    reader = FrameReader()
    try:
        for at in range(0, len(data), 7):
            list(reader.feed(data[at : at + 7]))
    except BadFrame:
        return


@given(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 9, 77]), st.binary(max_size=60), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_control_frames_with_any_body_are_read_or_refused(kind: int, body: bytes, flags: int) -> None:
    frame = struct.pack("!HHI", 0x8003, kind, flags << 24 | len(body)) + body
    try:
        list(FrameReader().feed(frame))
    except BadFrame:
        return


def _headers_frame(block: bytes) -> bytes:
    packer = zlib.compressobj(zdict=DICTIONARY)
    packed = packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    body = struct.pack("!IIH", 1, 0, 0) + packed
    return struct.pack("!HHI", 0x8003, 1, len(body)) + body


@pytest.mark.parametrize(
    "block",
    [
        struct.pack("!I", 2**31),
        struct.pack("!II", 1, 2**31),
        struct.pack("!I", 1) + struct.pack("!I", 9) + b"short",
        b"",
        b"\0" * 10_000_000,
    ],
    ids=["many", "long", "cut", "empty", "bomb"],
)
def test_hostile_headers_are_refused(block: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().feed(_headers_frame(block)))


def test_a_long_control_frame_is_refused_before_it_has_come() -> None:
    with pytest.raises(BadFrame, match="16777215"):
        list(FrameReader().feed(struct.pack("!HHI", 0x8003, 1, 0xFFFFFF)))


class _Wire:
    """One end of a connection in memory."""

    def __init__(self, incoming: BoundedPipe, outgoing: BoundedPipe) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    async def read(self) -> bytes:
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        await self._outgoing.feed(data)

    def close(self) -> None:
        self._outgoing.end()


def test_two_ends_talk_and_a_full_stream_waits() -> None:
    async def scene() -> None:
        there, back = BoundedPipe(), BoundedPipe()
        client, server = SpdySession(_Wire(back, there), client=True), SpdySession(_Wire(there, back))
        opened: asyncio.Queue[SpdyStream] = asyncio.Queue()
        reading = [
            asyncio.ensure_future(client.run(lambda stream: None)),
            asyncio.ensure_future(server.run(opened.put_nowait)),
        ]
        stream = await client.open({"streamtype": "data"})
        other = await opened.get()
        assert other.headers == {"streamtype": "data"}
        sent = bytes(range(256)) * 8192

        async def feed() -> None:
            for at in range(0, len(sent), 10_000):
                await stream.write(sent[at : at + 10_000])
            await stream.end()

        feeding = asyncio.ensure_future(feed())
        await asyncio.sleep(0.05)
        assert not feeding.done(), "nobody has read, and all was taken"
        found = b""
        while data := await other.read():
            found += data
        assert found == sent
        await feeding
        await other.write(b"back")
        assert await stream.read() == b"back"
        await other.reset()
        assert await stream.read() == b""
        with pytest.raises(ConnectionError):
            await stream.write(b"too late")
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scene(), 60))
