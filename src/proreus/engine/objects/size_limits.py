"""How much may stand in one object: a parser in C answers nobody until it is done, and Python walks the rest.

What is too much is told from the bytes, before they are read.
"""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.errors import TooLarge

MOST_DEPTH = 64
"""Objects within objects; Kubernetes' own go down about fifteen."""
MOST_VALUES = 100_000
"""Of one object, those within others included: read by the C parser in some 20 ms."""


def check_values(body: bytes) -> None:
    """`TooLarge` where JSON has too many values."""
    if _signs(body) <= MOST_VALUES:  # those within texts are among them, so this is never too few
        return
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    # Every text is a value or names one, so that many texts are too many whatever stands between them.
    if quotes > 4 * MOST_VALUES + 4 or sum(map(_signs, plain.split(b'"')[::2])) > MOST_VALUES:
        raise TooLarge(f"Request entity too large: an object has at most {MOST_VALUES} values")


def _signs(text: bytes) -> int:
    """As many as there are values, or more."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def depth(value: Any) -> int:
    """How many objects and lists stand within each other at most."""
    level, count = [value], 0
    while level:
        inner = [
            child
            for outer in level
            for child in (
                outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
            )
            if isinstance(child, dict | list)
        ]
        count += 1
        level = inner
    return count
