"""What a benchmark reports: rows of ours against a peer, with the goal and whether it holds."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class BenchRow:
    """One claim. `ratio` says how many times better ours is than the peer, whatever the direction."""

    what: str
    unit: str
    ours: float
    peer: float | None = None
    peer_name: str = ""
    ratio: float | None = None
    goal: float | None = None
    ok: bool | None = None


def claim(
    what: str,
    unit: str,
    ours: float,
    *,
    goal: float | None = None,
    better: Literal["higher", "lower"] = "higher",
    peer: tuple[float, str] | None = None,
) -> BenchRow:
    """A row with its ratio to the peer and its verdict on the goal worked out."""
    ratio = None
    if peer is not None and ours > 0 and peer[0] > 0:
        ratio = ours / peer[0] if better == "higher" else peer[0] / ours
    ok = None if goal is None else (ours >= goal if better == "higher" else ours <= goal)
    return BenchRow(
        what=what,
        unit=unit,
        ours=ours,
        peer=peer[0] if peer else None,
        peer_name=peer[1] if peer else "",
        ratio=ratio,
        goal=goal,
        ok=ok,
    )


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def as_json(name: str, rows: Sequence[BenchRow]) -> dict[str, Any]:
    """The stable JSON form of a benchmark."""
    return {"bench": name, "machine": machine(), "rows": [asdict(row) for row in rows]}
