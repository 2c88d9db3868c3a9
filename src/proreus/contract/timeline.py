"""How a run went, as strips below each other over time: what came, what was there, what was missed.

A world lists strips of the series that its looks have; the report draws them for every policy to one scale.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One series of a strip."""

    key: str
    """Names the series in a `Recording`."""
    title: str
    colour: int = 0
    """Which of the report's colours."""
    faint: bool = False
    """For what is on its way: paler."""


@dataclass(frozen=True)
class Strip:
    """Series that share a scale; where there are several, they stand on each other."""

    title: str
    unit: str
    layers: tuple[Layer, ...]
