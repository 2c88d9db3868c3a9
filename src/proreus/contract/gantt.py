"""A run as bars: what ran where, from when to when; for worlds whose work has a length."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.kernels.arrays import F64, I32

MOST_BARS = 4_000
"""That are drawn; of more, the first ones."""


@dataclass(frozen=True, eq=False)
class Gantt:
    """The bars of one run."""

    rows: tuple[str, ...]
    """What they stand on: machines."""
    groups: tuple[str, ...]
    """What they belong to: workflows. Bars of one group have one colour."""
    row: I32
    """[B] the row of each bar."""
    group: I32
    """[B]"""
    begin: F64
    """[B] seconds."""
    end: F64
    """[B]"""
    note: str = ""
    """What else a reader should know."""

    @property
    def left_out(self) -> int:
        """Bars beyond those that are drawn."""
        return max(self.row.size - MOST_BARS, 0)
