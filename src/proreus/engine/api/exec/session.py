"""A client's streams and a session's, joined until the session has ended or the client has gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from proreus.engine.api.server.reply import encode
from proreus.engine.runtimes.protocol import ContainerSession, OutputStream, RuntimeRefused, TerminalSize
from proreus.engine.wire.duplex import Sink, Source

PING_SECONDS = 30.0
"""Between signs of life of ours: a client that is no more does not answer them, and its connection breaks."""


class Activity:
    """When something last moved, in either direction."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()

    def note(self) -> None:
        """Something moves."""
        self._last = self._clock()

    async def ended(self) -> None:
        """When nothing has moved for too long."""
        while (left := self._last + self._seconds - self._clock()) > 0:
            await asyncio.sleep(left)


async def keep_alive(ping: Callable[[], Awaitable[None]]) -> None:
    """Again and again, until it cannot be sent."""
    while True:
        await asyncio.sleep(PING_SECONDS)
        try:
            await ping()
        except ConnectionError:
            return


_LONGEST_SIZE = 4096
_LARGEST_SIDE = 0xFFFF


@dataclass(frozen=True, slots=True)
class StreamsWanted:
    """Which streams a client has an end of."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@dataclass(frozen=True, slots=True)
class Ends:
    """The client's ends; None for what it does not want."""

    error: Sink
    """Where the Status goes that tells how it ended."""
    stdin: Source | None = None
    stdout: Sink | None = None
    stderr: Sink | None = None
    sizes: Source | None = None
    """Of the client's terminal, as JSON documents."""


async def converse(session: ContainerSession, ends: Ends, gone: asyncio.Event, activity: Activity) -> None:
    """Until the session's end was told, the client has `gone`, or nothing has moved for too long."""
    talking = asyncio.ensure_future(_talk(session, ends, activity))
    leaving = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(activity.ended())]
    try:
        await asyncio.wait((talking, *leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (talking, *leaving):
            task.cancel()
        await session.close()
        await asyncio.gather(*leaving, return_exceptions=True)
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await talking


async def _talk(session: ContainerSession, ends: Ends, activity: Activity) -> None:
    into = [
        asyncio.ensure_future(_copy_in(session, ends.stdin, activity)),
        asyncio.ensure_future(_copy_sizes(session, ends.sizes)),
    ]
    try:
        sinks = {OutputStream.STDOUT: ends.stdout, OutputStream.STDERR: ends.stderr}
        await asyncio.gather(*(_copy_out(session, output, sink, activity) for output, sink in sinks.items()))
        try:
            status = exit_status(await session.wait())
        except RuntimeRefused as refused:
            status = refusal_status(str(refused))
        await ends.error.write(encode(status))
        for sink in (ends.stdout, ends.stderr, ends.error):
            if sink is not None:
                await sink.end()
    finally:
        for task in into:
            task.cancel()
        await asyncio.gather(*into, return_exceptions=True)


async def _copy_in(session: ContainerSession, source: Source | None, activity: Activity) -> None:
    if source is not None:
        while data := await source.read():
            activity.note()
            await session.write(data)
    await session.end_input()


async def _copy_out(
    session: ContainerSession, output: OutputStream, sink: Sink | None, activity: Activity
) -> None:
    """What nobody wants is read all the same, so that the command can go on."""
    while data := await session.read(output):
        activity.note()
        if sink is not None:
            await sink.write(data)


async def _copy_sizes(session: ContainerSession, source: Source | None) -> None:
    if source is not None:
        async for size in read_sizes(source):
            await session.resize(size)


async def read_sizes(source: Source) -> AsyncIterator[TerminalSize]:
    """Sizes from JSON documents, one behind the other; from the first that is none on, nothing."""
    decoder, text = json.JSONDecoder(), ""
    while data := await source.read():
        text = (text + data.decode("latin-1")).lstrip()
        while text:
            try:
                message, end = decoder.raw_decode(text)
            except (ValueError, RecursionError):
                if len(text) > _LONGEST_SIZE:
                    return
                break  # the rest of it is yet to come
            size = _size(message)
            if size is None:
                return
            yield size
            text = text[end:].lstrip()


def _size(message: Any) -> TerminalSize | None:
    if not isinstance(message, dict):
        return None
    sides = [side for side in (message.get("Width"), message.get("Height")) if type(side) is int]
    if len(sides) != 2 or not all(0 <= side <= _LARGEST_SIDE for side in sides):
        return None
    return TerminalSize(*sides)


def exit_status(code: int) -> dict[str, Any]:
    """The Status of a command's end, as kubectl reads it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def refusal_status(message: str) -> dict[str, Any]:
    """The Status of a command that could not be run, or whose end nobody knows."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "code": 500,
    }
