"""The client of a CRI runtime's server of streams: SPDY, since only there can a command's input be ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from proreus.engine.runtimes.commands import not_started
from proreus.engine.runtimes.protocol import OutputStream, RuntimeRefused, TerminalSize
from proreus.engine.wire.duplex import Connection
from proreus.engine.wire.spdy import SpdySession, SpdyStream

_VERSION = "v4.channel.k8s.io"
_OPEN_SECONDS = 10.0
_LONGEST_STATUS = 64 * 1024


@dataclass(frozen=True, slots=True)
class ExecStreams:
    """Which of them there are, besides stdout."""

    stdin: bool
    tty: bool


async def open_session(url: str, streams: ExecStreams) -> RemoteSession:
    """Raises `RuntimeRefused` where the server does not play along."""
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            return await _opened(url, streams)
    except OSError as error:
        raise RuntimeRefused(f"the runtime's streams: {error}") from error


async def _opened(url: str, streams: ExecStreams) -> RemoteSession:
    place = urlsplit(url)
    if place.scheme != "http" or not place.hostname:
        raise RuntimeRefused("the runtime's streams are not at an http:// address")
    connection = await Connection.open(place.hostname, place.port or 80, _OPEN_SECONDS)
    head = (
        f"POST {place.path}{'?' + place.query if place.query else ''} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        f"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {_VERSION}\r\n"
        "Content-Length: 0\r\n\r\n"
    )
    session = RemoteSession(connection)
    try:
        await connection.write(head.encode())
        answer = (await connection.read_until(b"\r\n\r\n")).split(b"\r\n")[0].split(b" ", 2)
        if len(answer) < 2 or answer[1] != b"101":
            raise ConnectionResetError(f"the answer is {b' '.join(answer[1:]).decode('latin-1')!r:.200}")
        await session.begin(streams)
    except BaseException:
        await session.close()
        raise
    return session


class RemoteSession:
    """A `Session` at the other end of a connection.

    Closing it hangs up. As with Kubernetes itself, a command then ends that notices: by the end of its input,
    of its output, or of its terminal.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = SpdySession(connection, client=True)
        self._streams: dict[str, SpdyStream] = {}
        self._reading: asyncio.Future[None] | None = None
        self._exit_code: asyncio.Future[int] | None = None
        self._told_on: OutputStream | None = OutputStream.STDERR
        """Where it is yet to be told that the command could not be begun."""

    async def begin(self, streams: ExecStreams) -> None:
        """Open the streams; the server begins when all are there."""
        self._reading = asyncio.ensure_future(self._session.run(lambda stream: None))
        names = ["error", *(["stdin"] if streams.stdin else []), "stdout"]
        names.append("resize" if streams.tty else "stderr")
        self._told_on = OutputStream.STDOUT if streams.tty else OutputStream.STDERR
        for name in names:
            self._streams[name] = await self._session.open({"streamtype": name})
        self._exit_code = asyncio.ensure_future(self._read_status())

    async def read(self, output: OutputStream) -> bytes:
        stream = self._streams.get(output.value)
        data = b"" if stream is None else await stream.read()
        if data or output is not self._told_on:
            return data
        self._told_on = None
        return await self._complaint()

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            if "stdin" in self._streams:
                await self._streams["stdin"].write(data)

    async def end_input(self) -> None:
        with contextlib.suppress(ConnectionError):
            if "stdin" in self._streams:
                await self._streams["stdin"].end()

    async def resize(self, size: TerminalSize) -> None:
        with contextlib.suppress(ConnectionError):
            if "resize" in self._streams:
                sides = {"Width": size.columns, "Height": size.rows}
                await self._streams["resize"].write(json.dumps(sides).encode() + b"\n")

    async def wait(self) -> int:
        assert self._exit_code is not None
        try:
            return await asyncio.shield(self._exit_code)
        except RuntimeRefused as refused:
            result = not_started(str(refused))
            if result is None:
                raise
            return result.exit_code

    async def close(self) -> None:
        tasks = [task for task in (self._reading, self._exit_code) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._connection.close()

    async def _complaint(self) -> bytes:
        """The end of an output: what is told there of a command that could not be begun."""
        assert self._exit_code is not None
        try:
            await asyncio.shield(self._exit_code)
        except RuntimeRefused as refused:
            result = not_started(str(refused))
            return b"" if result is None else result.stderr
        return b""

    async def _read_status(self) -> int:
        status = b""
        while len(status) <= _LONGEST_STATUS and (data := await self._streams["error"].read()):
            status += data
        return exit_code_of(status)


def exit_code_of(text: bytes) -> int:
    """What a Status says of a command's end; raises `RuntimeRefused` where there is none."""
    try:
        status: Any = json.loads(text) if text else {}
        if status.get("status") == "Success":
            return 0
        if status.get("reason") == "NonZeroExitCode":
            return int(status["details"]["causes"][0]["message"])
        raise RuntimeRefused(str(status.get("message") or "the runtime cut the streams off")[:2000])
    except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise RuntimeRefused(f"the runtime tells {text[:200]!r} of the command's end") from error
