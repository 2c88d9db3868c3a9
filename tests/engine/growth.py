"""How much the engine's own containers hold, counted by where they stand."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

_OURS = "proreus.engine"


def held(root: str = _OURS) -> Counter[str]:
    """By class and attribute: how many things are in the dicts, lists, sets and queues of all its instances.

    Queues that bound themselves are left out, and objects of the API.
    """
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if isinstance(getattr(kind, "__module__", None), str) and kind.__module__.startswith(root):
            for name, value in _attributes(one):
                if _is_container(value):
                    found[f"{kind.__module__}.{kind.__qualname__}.{name}"] += len(value)
    return found


def grown(before: Counter[str], after: Counter[str], slack: int) -> dict[str, tuple[int, int]]:
    """What holds more than it did, by more than that."""
    return {name: (before[name], number) for name, number in after.items() if number > before[name] + slack}


def _is_container(value: Any) -> bool:
    match value:
        case dict():
            return "metadata" not in value
        case deque():
            return value.maxlen is None
        case _:
            return isinstance(value, list | set)


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if hasattr(one, mangled):
                yield name, getattr(one, mangled)
