"""The other side of `workers.child_process`: what runs in the process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

MOST_MEMORY = 4 << 30
"""Bytes that the code over there may take, beyond what our own modules take."""
_HEAD = struct.Struct("<Q")
_IN_MEMORY = 1 << 63
"""See `workers.child_process`."""
_PR_SET_PDEATHSIG = 1
_NICER = 5
"""Than whoever asks: threads that the code leaves behind take what is left."""
_FIRST_TO_GO = "500"


class Channel:
    """Frames from and to whoever asks."""

    def __init__(self, connection: socket.socket, memory: int) -> None:
        self._socket, self._memory = connection, memory
        self._pid = os.getpid()

    def receive(self) -> bytes:
        """The next question; ends the process where nobody is left to ask."""
        (size,) = _HEAD.unpack(self._exactly(_HEAD.size))
        if not size & _IN_MEMORY:
            return bytes(self._exactly(size))
        size &= ~_IN_MEMORY
        content = os.pread(self._memory, size, 0)
        while len(content) < size:
            content += os.pread(self._memory, size - len(content), len(content))
        return content

    def send(self, payload: bytes) -> None:
        """An answer; a copy of this process that the code has made has nothing to say."""
        if os.getpid() != self._pid:
            os._exit(0)
        self._socket.sendall(_HEAD.pack(len(payload)) + payload)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            count = self._socket.recv_into(view[at:], min(size - at, 1 << 20))
            if not count:
                os._exit(0)
            at += count
        return data


def main(descriptor: int, memory: int, parent: int) -> None:
    """Called by the interpreter's command line."""
    _die_with(parent)
    channel = Channel(socket.socket(fileno=descriptor), memory)
    target, *path = channel.receive().decode().split("\n")
    sys.path[:] = path
    module, _, name = target.partition(":")
    run: Callable[[Channel], None] = getattr(importlib.import_module(module), name)
    _settle()
    channel.send(b"+")
    run(channel)


def _die_with(parent: int) -> None:
    """Not by a thread that watches: code that holds the interpreter's lock would stop that one, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _settle() -> None:
    """What the code may take of the machine."""
    os.nice(_NICER)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # not every system has it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    resource.setrlimit(resource.RLIMIT_DATA, (_taken() + MOST_MEMORY,) * 2)


def _taken() -> int:
    """Bytes of data that this process has mapped already."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except (OSError, IndexError, ValueError):
        return 2 << 30
    return pages * resource.getpagesize()
