"""A process of its own for code that may do whatever it likes, asked in frames and left behind when late.

Nothing that the code does is felt here: it may spin, exit, fork, print for ever, ask for all memory, change
signal handlers and the current folder. Whoever asks waits until a deadline; who is late is killed with its
whole process group. The process dies with this one, however this one ends.

What comes back is bytes of bounded size; the reader decodes them as data and never as objects.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from proreus.model.errors import WorkError

_log = logging.getLogger(__name__)
_HEAD = struct.Struct("<Q")
_MAIN = "import sys; from proreus.workers.child_main import main; main(*map(int, sys.argv[1:]))"
_BOOT_SECONDS = 120.0
"""Until the interpreter and our own modules are there, on a machine that does much else."""
_GRACE_SECONDS = 2.0
"""Until a killed process is reaped."""
_MOST_PRINTED = 1 << 20
"""Bytes that are read of what the code prints in a second: who prints more has to wait for its own print."""
_MOST_LINES = 20
"""Of these are logged in all, so that a policy that prints fills no disk."""
_HANGING_UP = 0.2
"""Seconds from the end of a connection to that of its process, where one brings the other."""
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_CHUNK = 1 << 16
_SLOWEST = 1e6
"""Bytes of a question that are taken in a second, on the busiest machine."""
_IN_MEMORY = 1 << 63
"""Of the length of a frame: it lies in the memory that both sides have."""


class ChildLate(Exception):
    """No answer in time: the process was killed."""


class ChildEnded(WorkError):
    """The process is not there any more, or what it says is no answer."""


class ChildProcess:
    """One process; one question at a time, from whichever thread."""

    def __init__(self, target: str, name: str) -> None:
        """target: "module:function", called with a `Channel` over there; name: whose code it is, for logs."""
        self.name = name
        self._target = target
        self._lock = threading.Lock()
        self._ended = False
        self._memory = os.memfd_create("apart") if sys.platform == "linux" else None
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.setblocking(False)
        try:
            self._process = _spawner().submit(self._spawn, theirs).result()
        finally:
            theirs.close()
        threading.Thread(target=self._drain, name="apart-output", daemon=True).start()

    def boot(self) -> None:
        """Wait until it can be asked: our own modules are imported over there, nobody's code yet."""
        with self._answering(_BOOT_SECONDS):
            until = time.monotonic() + _BOOT_SECONDS
            head = "\n".join((self._target, *sys.path)).encode()
            self._send(head, until)
            self._receive(until, 1)

    def ask(self, frame: Callable[[], bytes], *phases: ChildPhase) -> None:
        """Send what `frame` makes and take one answer for each phase, within its own seconds.

        The first is for the way there. Where somebody else asks, there is no waiting for longer than the
        answers themselves may take.
        """
        patience = sum(phase.seconds for phase in phases[1:])
        with self._answering(patience):
            payload = frame()
            until = time.monotonic() + phases[0].seconds + len(payload) / _SLOWEST
            for number, phase in enumerate(phases):
                try:
                    if number == 0:
                        self._send(payload, until)
                    else:
                        until = time.monotonic() + phase.seconds
                    phase.take(self._receive(until, phase.most))
                except ChildLate:
                    raise ChildLate(phase.late) from None

    def end(self) -> None:
        """Kill it and whatever it started in its group; who waits for it is told at once."""
        if self._ended:
            return
        self._ended = True
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("%s: %s", self.name, error)
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            _log.warning("%s: process %d has not ended after SIGKILL", self.name, self._process.pid)

    def __del__(self) -> None:
        """Who forgets it ends it; only then may what others wait on be closed."""
        self.end()
        self._socket.close()
        if self._memory is not None:
            os.close(self._memory)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._ended

    # Below the face.

    def _answering(self, patience: float) -> _Turn:
        return _Turn(self, self._lock, patience)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        memory = -1 if self._memory is None else self._memory
        shared = (theirs.fileno(), *(() if self._memory is None else (self._memory,)))
        return subprocess.Popen(
            [sys.executable, "-c", _MAIN, *map(str, (theirs.fileno(), memory, os.getpid()))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=shared,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def _send(self, payload: bytes, until: float) -> None:
        """Large ones through memory that both have: a socket takes them in small portions, by turns."""
        if self._memory is not None and len(payload) > _CHUNK:
            written, view = 0, memoryview(payload)
            while written < len(payload):
                written += os.pwrite(self._memory, view[written:], written)
            self._push(_HEAD.pack(len(payload) | _IN_MEMORY), until)
        else:
            self._push(_HEAD.pack(len(payload)) + payload, until)

    def _push(self, frame: bytes, until: float) -> None:
        """Somebody who does not read stops nobody but himself."""
        view, sent = memoryview(frame), 0
        while sent < len(view):
            self._wait(select.POLLOUT, until)
            try:
                sent += self._socket.send(view[sent : sent + (1 << 20)])
            except BlockingIOError:
                continue
            except OSError:
                raise self._gone() from None

    def _receive(self, until: float, most: int) -> bytes:
        (size,) = _HEAD.unpack(self._exactly(_HEAD.size, until))
        if size > most:
            raise ChildEnded(f"an answer of {size} bytes where {most} are possible")
        return bytes(self._exactly(size, until))

    def _exactly(self, size: int, until: float) -> bytearray:
        data = bytearray()
        while len(data) < size:
            self._wait(select.POLLIN, until)
            try:
                part = self._socket.recv(min(size - len(data), 1 << 20))
            except BlockingIOError:
                continue
            except OSError:
                raise self._gone() from None
            if not part:
                raise self._gone()
            data += part
        return data

    def _wait(self, what: int, until: float) -> None:
        poll = select.poll()
        poll.register(self._socket, what)
        left = until - time.monotonic()
        if self._ended or not poll.poll(max(0.0, left) * 1e3):
            raise self._gone() if self._ended else ChildLate("no answer in time")

    def _gone(self) -> ChildEnded:
        """Why it is not there: looked at before it is killed, since then everybody was killed."""
        if self._ended:
            return ChildEnded("its process was ended")
        # Not reaped yet: until it is, nobody else gets its number, and the group can be killed by that.
        until = time.monotonic() + _HANGING_UP
        while (end := os.waitid(os.P_PID, self._process.pid, _LOOK)) is None:
            if time.monotonic() > until:
                return ChildEnded("its process has hung up")
            time.sleep(0.005)
        if end.si_code == os.CLD_EXITED:
            return ChildEnded(f"its process exited with {end.si_status}")
        return ChildEnded(f"its process was ended by {signal.Signals(end.si_status).name}")

    def _drain(self) -> None:
        """Log the first lines of what is printed, and throw the rest away, no faster than is good for us."""
        stream = self._process.stdout
        assert stream is not None, "it is a pipe"
        left = _MOST_LINES
        with stream:
            while part := os.read(stream.fileno(), _CHUNK):
                for line in part.decode(errors="replace").splitlines()[:left]:
                    _log.info("%s prints: %s", self.name, line[:300])
                    left -= 1
                time.sleep(len(part) / _MOST_PRINTED)


class ChildPhase:
    """One answer that is expected."""

    __slots__ = ("late", "most", "seconds", "take")

    def __init__(self, seconds: float, most: int, take: Callable[[bytes], None], late: str) -> None:
        """take: what is done with the answer; late: what is said where it does not come in time."""
        self.seconds, self.most, self.take, self.late = seconds, most, take, late


class _Turn:
    """Asking, alone; whatever goes wrong meanwhile ends the process: it may be in the middle of anything."""

    def __init__(self, process: ChildProcess, lock: threading.Lock, patience: float) -> None:
        self._process, self._lock, self._patience = process, lock, patience

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._patience):
            raise Busy("earlier decisions are still being worked on")
        if not self._process.alive:
            self._lock.release()
            raise ChildEnded("its process was ended")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.end()
        self._lock.release()


class Busy(Exception):
    """Others ask it; it goes on."""


@cache
def _spawner() -> ThreadPoolExecutor:
    """Starts every process from one thread, which lasts as long as this process does: the kernel tells a
    process of the end of the thread that started it."""
    return ThreadPoolExecutor(1, "apart-spawner")
