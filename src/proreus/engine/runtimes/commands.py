"""Commands run beside the agent, with their streams, or to their end within bounds of time and output."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import Mapping, Sequence

from proreus.engine.runtimes.descriptors import Descriptor
from proreus.engine.runtimes.protocol import (
    CommandResult,
    ContainerSession,
    OutputStream,
    RuntimeRefused,
    TerminalSize,
)
from proreus.engine.runtimes.shim import shim

MOST_OUTPUT = 16 * 1024 * 1024
_LINGER_SECONDS = 1.0
"""How long output is waited for that something prints which the command has left behind."""
_LARGEST_SIDE = 0xFFFF


_EXEC_FAILED = re.compile(r'exec: "((?:[^"\\]|\\.)*)": (.*)', re.DOTALL)
"""How runc, and containerd after it, tell of a command that they could not begin."""
_MISSING = ("executable file not found", "no such file or directory", "not a directory")


def not_started(message: str) -> CommandResult | None:
    """How a command ended that a runtime could not begin, in words that all runtimes share.

    None where the message tells of something else.
    """
    failed = _EXEC_FAILED.search(message)
    if failed is None:
        return None
    program, why = failed.groups()
    code = shim.NOT_FOUND if any(words in why for words in _MISSING) else shim.NOT_EXECUTABLE
    return CommandResult(code, stderr=shim.not_started(program, code).encode())


class SpawnedCommand:
    """A `ContainerSession` of a process of this machine; made by `spawn`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: Mapping[OutputStream, Descriptor],
        stdin: Descriptor | None,
        terminal: Descriptor | None,
    ) -> None:
        self._process, self._streams, self._stdin = process, streams, stdin
        self._terminal = terminal
        self._ended = asyncio.ensure_future(self._watch())

    async def read(self, output: OutputStream) -> bytes:
        stream = self._streams.get(output)
        return b"" if stream is None else await stream.read()

    async def write(self, data: bytes) -> None:
        if self._stdin is not None and not await self._stdin.write(data):
            await self.end_input()

    async def end_input(self) -> None:
        """A terminal is told by its own sign for the end, as a user tells it."""
        if self._stdin is None:
            return
        if self._stdin is self._terminal:
            await self._stdin.write(b"\x04")
        else:
            self._stdin.close()
        self._stdin = None

    async def resize(self, size: TerminalSize) -> None:
        """See `ContainerSession`; a process in between that does not own the terminal is told by the
        signal.
        """
        if self._terminal is None or self._ended.done():
            return
        sides = (min(size.rows, _LARGEST_SIDE), min(size.columns, _LARGEST_SIDE))
        fcntl.ioctl(self._terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", *sides, 0, 0))
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGWINCH)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """Killed with all below it: what runc has started is in a session of its own."""
        if self._process.returncode is None:
            for pid in (*shim.descendants(self._process.pid), self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await asyncio.shield(self._ended)
        for stream in (*self._streams.values(), self._stdin):
            if stream is not None:
                stream.close()

    async def _watch(self) -> int:
        code = await self._process.wait()
        for stream in self._streams.values():
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, stream.finish)
        return 128 - code if code < 0 else code


async def spawn(
    argv: Sequence[str], environment: Mapping[str, str], *, stdin: bool = False, tty: bool = False
) -> SpawnedCommand:
    """Begin it, in a session of its own.

    With `tty` it finds a terminal on its streams, which is not yet the one that controls it.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        if tty:
            master, slave = os.openpty()
            ours, theirs = [master], [slave]
            ends = (slave, slave, slave)
        else:
            given, input_end = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
            ours, theirs = [input_end] if stdin else [], [given]
            for _ in range(2):
                reading, writing = os.pipe()
                ours.append(reading)
                theirs.append(writing)
            ends = (given, theirs[1], theirs[2])
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=ends[0], stdout=ends[1], stderr=ends[2], env=environment, start_new_session=True
        )
    except OSError as error:
        for fd in ours:
            os.close(fd)
        raise RuntimeRefused(f"{argv[0]}: {error.strerror}") from error
    finally:
        for fd in theirs:
            os.close(fd)
    held = [Descriptor(fd) for fd in ours]
    if tty:
        return SpawnedCommand(process, {OutputStream.STDOUT: held[0]}, held[0] if stdin else None, held[0])
    streams = {OutputStream.STDOUT: held[-2], OutputStream.STDERR: held[-1]}
    return SpawnedCommand(process, streams, held[0] if stdin else None, None)


async def collected(session: ContainerSession, stdin: bytes, timeout: float) -> CommandResult:
    """The session's end and output, of which what is too much is dropped; it is closed then.

    Raises `RuntimeRefused` where it takes too long.
    """
    try:
        async with asyncio.timeout(timeout):
            _, out, err, code = await asyncio.gather(
                _feed(session, stdin),
                _bounded(session, OutputStream.STDOUT),
                _bounded(session, OutputStream.STDERR),
                session.wait(),
            )
    except TimeoutError as error:
        raise RuntimeRefused(f"the command did not end within {timeout:g} s") from error
    finally:
        await session.close()
    return CommandResult(code, out, err)


async def run_command(
    argv: Sequence[str], stdin: bytes, timeout: float, environment: Mapping[str, str]
) -> CommandResult:
    """A command of this machine to its end; see `collected`."""
    return await collected(await spawn(argv, environment, stdin=bool(stdin)), stdin, timeout)


async def _feed(session: ContainerSession, data: bytes) -> None:
    if data:
        await session.write(data)
    await session.end_input()


async def _bounded(session: ContainerSession, output: OutputStream) -> bytes:
    kept = bytearray()
    while data := await session.read(output):
        kept += data[: MOST_OUTPUT - len(kept)]
    return bytes(kept)
