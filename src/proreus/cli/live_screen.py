"""How a run is watched: frame after frame in a terminal, the last frame alone in a pipe or a file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

Show = Callable[[Sequence[str]], None]
"""Takes the lines of the next frame."""


@contextmanager
def screen(console: Console, rate: float) -> Iterator[Show]:
    """Shows so many frames a second."""
    if not console.is_terminal:
        last: deque[Sequence[str]] = deque(maxlen=1)
        yield last.append
        for lines in last:
            console.print(_text(lines), soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(lines: Sequence[str]) -> None:
            live.update(_text(lines), refresh=True)
            time.sleep(1.0 / rate)

        yield show


def _text(lines: Sequence[str]) -> Text:
    return Text("\n".join(lines), no_wrap=True)
