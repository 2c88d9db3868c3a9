"""Output to streams that know fewer signs than tables and bars are made of: ASCII, Latin-1."""

from __future__ import annotations

import codecs
import io
import sys

_PLAIN = "proreus.plain"
# One sign for one sign: what stands in columns stays in columns.
_PLAINER = {
    **dict.fromkeys("─━═╌┄┈–—", "-"),
    **dict.fromkeys("│┃║▏▕", "|"),
    **dict.fromkeys("█▉▊▋▌", "#"),
    **dict.fromkeys("▍▎░▒▓", ":"),
    **{"±": "~", "…": ".", "×": "x", "·": ".", "•": "*", "µ": "u", "≥": ">", "≤": "<", "→": ">", "’": "'"},
    **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
}


def print_in_any_encoding() -> None:
    """Let output that is ASCII or Latin-1 show the nearest plain sign in place of one that it lacks."""
    codecs.register_error(_PLAIN, _plainer)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=_PLAIN)


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAINER.get(sign, _frame(sign)) for sign in signs), error.end


def _frame(sign: str) -> str:
    return "+" if "\u2500" <= sign <= "\u257f" else "?"
