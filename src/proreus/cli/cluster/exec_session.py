"""Talking to a command in a container, over the API's WebSocket, as kubectl does. Needs websockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from proreus.cli.cluster.client import refused, trust
from proreus.cli.cluster.messages import ApiRefused, Unreachable
from proreus.cli.cluster.state_dir import Address
from proreus.cli.cluster.terminal import raw_terminal, size

_VERSION = Subprotocol("v5.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK, _MOST_WAITING = 32 * 1024, 4
_OPEN_SECONDS = 60.0


@dataclass(frozen=True)
class Talk:
    """A command in a container, and what of this process goes to it."""

    path: str
    """Of the pod's exec."""
    container: str
    command: tuple[str, ...]
    stdin: bool
    tty: bool


def talk(address: Address, wanted: Talk, out: Callable[[int, bytes], None]) -> int:
    """Until the command has ended; its exit code. What it prints goes to `out`, with 1 or 2 for where."""
    return asyncio.run(_talk(address, wanted, out))


async def _talk(address: Address, wanted: Talk, out: Callable[[int, bytes], None]) -> int:
    async with _connected(address, wanted) as connection:
        with raw_terminal() if wanted.tty else contextlib.nullcontext():
            sending = asyncio.ensure_future(_send(connection, wanted))
            try:
                return await _receive(connection, out)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                    await sending


@contextlib.asynccontextmanager
async def _connected(address: Address, wanted: Talk) -> AsyncIterator[ClientConnection]:
    flags = {"stdout": True, "stderr": not wanted.tty, "stdin": wanted.stdin, "tty": wanted.tty}
    query = [("command", word) for word in wanted.command]
    query += [(name, "true") for name, there in flags.items() if there]
    query += [("container", wanted.container)] if wanted.container else []
    verified = trust(address)
    try:
        connection = await connect(
            f"ws{address.server.removeprefix('http')}{wanted.path}?{urlencode(query)}",
            subprotocols=[_VERSION],
            additional_headers={"authorization": f"Bearer {address.token}"} if address.token else {},
            ssl=verified if isinstance(verified, ssl.SSLContext) else None,
            proxy=None,
            compression=None,
            open_timeout=_OPEN_SECONDS,
        )
    except InvalidStatus as error:
        raise refused(error.response.status_code, error.response.body.decode(errors="replace")) from None
    except (OSError, InvalidHandshake) as error:
        message = f"no cluster answers at {address.server}: {error}; is `proreus up` running?"
        raise Unreachable(message) from None
    try:
        yield connection
    except ConnectionClosed as error:
        raise Unreachable(f"{address.server} ended the connection: {error}") from None
    finally:
        await connection.close()


async def _receive(connection: ClientConnection, out: Callable[[int, bytes], None]) -> int:
    async for message in connection:
        data = message.encode() if isinstance(message, str) else message
        if data[:1] == bytes((_ERROR,)) and len(data) > 1:
            return _exit_code(json.loads(data[1:]))
        if len(data) > 1 and data[0] in (_STDOUT, _STDERR):
            out(data[0], data[1:])
    raise Unreachable("the connection ended before the command")


def _exit_code(status: Any) -> int:
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        return int(status["details"]["causes"][0]["message"])
    raise ApiRefused(str(status.get("message")), int(status.get("code", 500)), str(status.get("reason", "")))


async def _send(connection: ClientConnection, wanted: Talk) -> None:
    """Sizes as they change, and what is typed, to its end."""
    loop = asyncio.get_running_loop()
    resized = asyncio.Event()
    if wanted.tty:
        resized.set()
        loop.add_signal_handler(signal.SIGWINCH, resized.set)
    tasks = [_send_input(connection)] if wanted.stdin else []
    tasks += [_send_sizes(connection, resized)] if wanted.tty else []
    try:
        await asyncio.gather(*tasks)
    finally:
        if wanted.tty:
            loop.remove_signal_handler(signal.SIGWINCH)


async def _send_sizes(connection: ClientConnection, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        columns, rows = size()
        payload = json.dumps({"Width": columns, "Height": rows}).encode()
        await connection.send(bytes((_RESIZE,)) + payload)


async def _send_input(connection: ClientConnection) -> None:
    typed: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
    loop = asyncio.get_running_loop()
    # A thread that waits for somebody to type must not keep the process from ending.
    threading.Thread(target=_read_input, args=(loop, typed), daemon=True, name="stdin").start()
    while data := await typed.get():
        await connection.send(bytes((_STDIN,)) + data)
    await connection.send(bytes((_CLOSE, _STDIN)))


def _read_input(loop: asyncio.AbstractEventLoop, typed: asyncio.Queue[bytes]) -> None:
    """In its thread: piece by piece, as fast as they are sent; an empty one at the end."""
    data = b" "
    while data:
        data = os.read(sys.stdin.fileno(), _CHUNK)
        try:
            asyncio.run_coroutine_threadsafe(typed.put(data), loop).result()
        except (RuntimeError, CancelledError):  # the command has ended, and the loop with it
            return
