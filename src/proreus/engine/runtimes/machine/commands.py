"""A command run beside the agent, within bounds of time and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from proreus.engine.runtimes.protocol import Executed, RuntimeRefused

MOST_OUTPUT = 16 * 1024 * 1024
_CHUNK = 1 << 16


async def run_command(
    argv: Sequence[str], stdin: bytes, timeout: float, environment: Mapping[str, str]
) -> Executed:
    """Its end and output, of which what is too much is dropped; raises `RuntimeRefused` where it hangs."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    reading = asyncio.gather(
        _feed(process.stdin, stdin), _bounded(process.stdout), _bounded(process.stderr), process.wait()
    )
    try:
        async with asyncio.timeout(timeout):
            _, out, err, code = await reading
    except TimeoutError as error:
        raise RuntimeRefused(f"the command did not end within {timeout:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Executed(128 - code if code < 0 else code, out, err)


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it did not want all of it
        stream.write(data)
        await stream.drain()
    stream.close()


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while data := await stream.read(_CHUNK):
        kept += data[: MOST_OUTPUT - len(kept)]
    return bytes(kept)
