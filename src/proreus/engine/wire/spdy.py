"""One end of a SPDY/3.1 connection: streams over a `Duplex`, as Kubernetes' exec and port-forward use them.

Neither kubectl nor containerd keeps windows, so there are none here: who sends more than a stream's reader
takes is held back together with all other streams of the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import assert_never

from proreus.engine.wire.duplex import BoundedPipe, Duplex
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

_PROTOCOL_ERROR, _INVALID_STREAM, _REFUSED_STREAM, _CANCEL = 1, 2, 3, 5
_MOST_STREAMS = 512
"""Open at once; a forwarded connection takes two."""


class SpdyStream:
    """One stream: a `Source` and a `Sink`."""

    def __init__(self, session: SpdySession, id: int, headers: Mapping[str, str]) -> None:
        self._session, self.id, self.headers = session, id, headers
        self.incoming = BoundedPipe()
        self.ended_here = self.ended_there = self.cut = False
        self.accepted = asyncio.Event()
        """Set when the other end has answered, or never will."""

    async def read(self) -> bytes:
        return await self.incoming.read()

    async def write(self, data: bytes) -> None:
        if self.cut or self.ended_here:
            raise ConnectionResetError("the stream is closed")
        if data:
            await self._session.send(Data(self.id, data))

    async def end(self) -> None:
        if not (self.cut or self.ended_here):
            self.ended_here = True
            await self._session.send(Data(self.id, b"", fin=True))
            self._session.settle(self)

    async def reset(self) -> None:
        """Nothing of it is wanted any more."""
        if not self.cut:
            self._session.cut(self)
            await self._session.send(Reset(self.id, _CANCEL))


class SpdySession:
    def __init__(self, duplex: Duplex, *, client: bool = False) -> None:
        self._duplex = duplex
        self._reader, self._writer = FrameReader(), FrameWriter()
        self._client = client
        self._next, self._last_seen = (1, 0) if client else (2, 0)
        self._streams: dict[int, SpdyStream] = {}

    async def run(self, opened: Callable[[SpdyStream], None]) -> None:
        """Read until the connection ends; new streams of the other end go to `opened`."""
        try:
            while data := await self._duplex.read():
                for frame in self._reader.feed(data):
                    await self._take(frame, opened)
        except BadFrame:
            await self.close(_PROTOCOL_ERROR)
        except ConnectionError:
            return
        finally:
            for stream in tuple(self._streams.values()):
                self.cut(stream)

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """A stream that the other end has accepted; raises `ConnectionError` where it did not."""
        stream = SpdyStream(self, self._next, headers)
        self._next += 2
        self._streams[stream.id] = stream
        await self.send(SynStream(stream.id, headers))
        await stream.accepted.wait()
        if stream.cut:
            raise ConnectionResetError("the stream was refused")
        return stream

    async def send(self, frame: Frame) -> None:
        """Raises `ConnectionError`."""
        await self._duplex.write(self._writer.write(frame))

    async def ping(self) -> None:
        """A sign of life; raises `ConnectionError` where the connection is lost."""
        await self.send(Ping(self._next % 2 or 2))

    async def close(self, status: int = 0) -> None:
        """Say that no more streams are taken, as far as anybody listens."""
        try:
            await self.send(GoAway(self._last_seen, status))
        except ConnectionError:
            return

    def settle(self, stream: SpdyStream) -> None:
        """Forget it once both ends have ended it."""
        if stream.ended_here and stream.ended_there:
            self._streams.pop(stream.id, None)

    def cut(self, stream: SpdyStream) -> None:
        """It is over, for whoever reads and whoever writes."""
        stream.cut = True
        stream.incoming.end()
        stream.accepted.set()
        self._streams.pop(stream.id, None)

    async def _take(self, frame: Frame, opened: Callable[[SpdyStream], None]) -> None:
        match frame:
            case SynStream():
                await self._welcome(frame, opened)
            case SynReply(id, _, fin):
                stream = self._streams.get(id)
                if stream is not None:
                    stream.accepted.set()
                    self._finish(stream, fin)
            case Data(id, data, fin):
                stream = self._streams.get(id)
                if stream is not None and not stream.ended_there:
                    if data:
                        await stream.incoming.feed(data)
                    self._finish(stream, fin)
                elif stream is None and not self._known(id):
                    await self.send(Reset(id, _INVALID_STREAM))
            case Reset(id, _):
                stream = self._streams.get(id)
                if stream is not None:
                    self.cut(stream)
            case Ping(id):
                if bool(id % 2) is not self._client:  # the other end's, not the echo of ours
                    await self.send(frame)
            case GoAway():
                return  # it opens no more; what is open goes on to its end
            case _:
                assert_never(frame)

    async def _welcome(self, frame: SynStream, opened: Callable[[SpdyStream], None]) -> None:
        if bool(frame.stream % 2) is self._client or frame.stream <= self._last_seen:
            await self.send(Reset(frame.stream, _PROTOCOL_ERROR))
            return
        self._last_seen = frame.stream
        if len(self._streams) >= _MOST_STREAMS:
            await self.send(Reset(frame.stream, _REFUSED_STREAM))
            return
        stream = SpdyStream(self, frame.stream, frame.headers)
        self._streams[stream.id] = stream
        await self.send(SynReply(stream.id))
        self._finish(stream, frame.fin)
        opened(stream)

    def _finish(self, stream: SpdyStream, fin: bool) -> None:
        if fin and not stream.ended_there:
            stream.ended_there = True
            stream.incoming.end()
            self.settle(stream)

    def _known(self, id: int) -> bool:
        """Whether there once was a stream of that number: what is still under way of it is of no interest."""
        theirs = bool(id % 2) is not self._client
        return 0 < id <= self._last_seen if theirs else 0 < id < self._next
