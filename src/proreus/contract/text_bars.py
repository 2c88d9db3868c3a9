"""Shares as bars of text, for the screens of every world."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 12
MOST_LINES = 40
"""Of servers, nodes or machines: a screen has no more."""


def bar(share: float, width: int = _WIDTH) -> str:
    """A share from 0 to 1 as a bar, to an eighth of a sign."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def cpu_and_memory(shares: tuple[float, float], beside: tuple[str, str]) -> str:
    """Two bars, and what is to stand beside each."""
    return f"cpu ▕{bar(shares[0])}▏{beside[0]}  mem ▕{bar(shares[1])}▏{beside[1]}"
