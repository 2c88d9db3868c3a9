"""Stored text and how it is compared: what is stored must still hold, more may have been added."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PINNED = Path(__file__).parent / "pinned"
REWRITES = os.environ.get("PROREUS_PIN", "") not in ("", "0")
"""Whether the stored text is written anew and not compared."""
REWRITES_RUNS = os.environ.get("PROREUS_PIN") == "runs"
"""Whether the old runs are made anew too. They are worth something because they are old."""
LOOSE = os.environ.get("PROREUS_LOOSE", "") not in ("", "0")
"""Whether weights need not be the same to the bit: another processor's linear algebra rounds otherwise."""
_TIMES = re.compile(r"seconds?$|_per_s$|^(created|commit|pid)$")


@dataclass(frozen=True)
class Closeness:
    """How far a number may be from the stored one."""

    relative: float = 1e-9
    absolute: float = 1e-12


EXACT = Closeness()
TORCH = Closeness(1e-6, 1e-9)
"""torch adds up in an order that depends on the processor."""


def read(name: str) -> Any:
    """The JSON that is stored under the name."""
    return json.loads((PINNED / f"{name}.json").read_text())


def assert_pinned(name: str, document: Any, closeness: Closeness = EXACT) -> None:
    """That the document, as JSON, still holds all that is stored under the name."""
    document = json.loads(json.dumps(document))
    if REWRITES:
        path = PINNED / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    differences = lost(read(name), document, closeness)
    assert not differences, f"pinned/{name}.json no longer holds:\n" + "\n".join(differences[:20])


def lost(pinned: Any, actual: Any, closeness: Closeness = EXACT, place: str = "") -> list[str]:
    """Where `actual` no longer says what was pinned, one line each; further keys of a mapping are no loss."""
    if isinstance(pinned, dict) and isinstance(actual, dict):
        lines = []
        for key, value in pinned.items():
            here = f"{place}/{key}"
            lines += lost(value, actual[key], closeness, here) if key in actual else [f"{here}: is gone"]
        return lines
    if isinstance(pinned, list) and isinstance(actual, list):
        if len(pinned) != len(actual):
            return [f"{place}: {len(actual)} entries, pinned were {len(pinned)}"]
        return [
            line
            for index, (one, other) in enumerate(zip(pinned, actual, strict=True))
            for line in lost(one, other, closeness, f"{place}/{index}")
        ]
    if _same(pinned, actual, closeness):
        return []
    return [f"{place}: {actual!r}, pinned was {pinned!r}"]


def _same(pinned: Any, actual: Any, closeness: Closeness) -> bool:
    if isinstance(pinned, bool) or isinstance(actual, bool) or not isinstance(pinned, float | int):
        return type(pinned) is type(actual) and bool(pinned == actual)
    if not isinstance(actual, float | int):
        return False
    if math.isnan(pinned) or math.isnan(actual):
        return math.isnan(pinned) and math.isnan(actual)
    return math.isclose(pinned, actual, rel_tol=closeness.relative, abs_tol=closeness.absolute)


def is_timing(name: str) -> bool:
    """Whether a field says how long something took, or when and where it was done."""
    return _TIMES.search(name) is not None


def without_timings(content: Any) -> Any:
    """The same without the fields that no two runs share."""
    if isinstance(content, dict):
        return {key: without_timings(value) for key, value in content.items() if not is_timing(key)}
    if isinstance(content, list):
        return [without_timings(value) for value in content]
    return content
