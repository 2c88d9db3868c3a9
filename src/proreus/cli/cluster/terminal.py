"""The terminal that a command of this program runs in: raw while it is lent to a command elsewhere."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


def is_terminal() -> bool:
    """Whether what is typed comes from one."""
    return sys.stdin.isatty()


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes through, Ctrl-C too; as it was before, however this ends."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def size() -> tuple[int, int]:
    """Columns and rows."""
    terminal_size = os.get_terminal_size(sys.stdin.fileno())
    return terminal_size.columns, terminal_size.lines
