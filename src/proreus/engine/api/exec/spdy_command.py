"""The streams of a command as streams of SPDY, each with a header that says which it is."""

from __future__ import annotations

import asyncio

from proreus.engine.api.exec.session import Ends, StreamsWanted
from proreus.engine.wire.spdy import SpdySession, SpdyStream

TYPE = "streamtype"
_ARRIVAL_SECONDS = 30.0


class SpdyCommand:
    """Waits for the streams that were announced in the request, and for no others."""

    def __init__(self, session: SpdySession, wanted: StreamsWanted) -> None:
        self._session = session
        streams = {
            "stdin": wanted.stdin,
            "stdout": wanted.stdout,
            "stderr": wanted.stderr,
            "resize": wanted.tty,
        }
        self._expected = {"error", *(name for name, there in streams.items() if there)}
        self._streams: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._refused: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take what the client sends, until it has gone."""
        await self._session.run(self._opened)

    async def ends(self, gone: asyncio.Event) -> Ends | None:
        """Once all streams are there; None where the client has gone, or takes too long."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._complete, gone)]
        await asyncio.wait(waiting, timeout=_ARRIVAL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if not self._complete.is_set():
            return None
        streams = self._streams
        return Ends(
            streams["error"],
            streams.get("stdin"),
            streams.get("stdout"),
            streams.get("stderr"),
            streams.get("resize"),
        )

    def _opened(self, stream: SpdyStream) -> None:
        name = stream.headers.get(TYPE, "")
        if name not in self._expected or name in self._streams:
            task = asyncio.ensure_future(stream.reset())
            self._refused.add(task)
            task.add_done_callback(self._refused.discard)
            return
        self._streams[name] = stream
        if len(self._streams) == len(self._expected):
            self._complete.set()
