"""How services, clusters and agents are told to end: by signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


class StopEvent(threading.Event):
    """That the service was told to end."""

    has_loaded = False

    def loaded(self) -> None:
        """From here on there is something to close."""
        self.has_loaded = True


@contextlib.contextmanager
def told_to_end() -> Iterator[StopEvent]:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once.

    Before it is loaded nothing was promised to anybody, and loading may take a minute: it ends at once. An
    exception would not do: in a destructor or a callback of the compiler it is printed and lost.
    """
    ending = StopEvent()

    def handle(number: int, _: FrameType | None) -> None:
        if ending.is_set():
            os._exit(128 + number)
        if not ending.has_loaded:
            os._exit(0)
        ending.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupted_at_last(seconds: float = 5.0) -> Iterator[None]:
    """The first Ctrl-C ends the command, in one line, also where code from elsewhere catches it and goes on.

    Only the main thread can be told of signals: in any other nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()

    def end() -> None:
        if not ended.wait(seconds):
            print("proreus: interrupted", file=sys.stderr, flush=True)
            os._exit(130)

    def handle(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=end, name="interrupted", daemon=True).start()
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)


def end_at_last(seconds: float) -> None:
    """End the process after so many seconds, whatever holds it.

    A thread in a call that nobody can interrupt, as one that resolves a name, is waited for when Python ends.
    """

    def end() -> None:
        print(f"proreus: something did not end within {seconds:g} s and is left", file=sys.stderr, flush=True)
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
