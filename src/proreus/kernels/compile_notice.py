"""Tells whoever starts something that kernels are compiled meanwhile, which takes a minute where all are new.

Only what is really compiled is told: code that was kept is loaded, and nobody has to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hear = Callable[[int], None]
"""Hears, before each kernel, how many have been begun with it."""

_listeners: list[Callable[[], None]] = []


@contextmanager
def heard_by(hear: Hear) -> Iterator[None]:
    """While the block runs, `hear` is called before every kernel that this process compiles."""
    begun = 0

    def count() -> None:
        nonlocal begun
        begun += 1
        hear(begun)

    _listeners.append(count)
    try:
        yield
    finally:
        _listeners.remove(count)


def tell() -> None:
    """A kernel is about to be compiled."""
    for count in tuple(_listeners):
        count()
