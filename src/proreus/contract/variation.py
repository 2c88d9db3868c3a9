"""The same work, but: more of it, or with some of the boxes of a run's picture taken away.

Scenarios that can be played so have `varied`; the dashboard's playground asks it of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from proreus.model.errors import UsageError


@dataclass(frozen=True)
class Variation:
    """What is different."""

    load: int = 1
    """So many times the work."""
    without: frozenset[int] = frozenset()
    """Nodes, servers or machines that are not there, by their places in the picture of the plain run."""

    @property
    def plain(self) -> bool:
        """Whether nothing is."""
        return self.load == 1 and not self.without


@runtime_checkable
class Variable(Protocol):
    """A scenario of which there are variations."""

    def varied(self, variation: Variation) -> Self:
        """The same with what is different; a UsageError where that leaves nothing, or cannot be."""
        ...


def counts_without(counts: Sequence[int], without: frozenset[int]) -> list[int]:
    """How many of each kind are left, where boxes stand kind by kind."""
    left, begin = [], 0
    for count in counts:
        left.append(count - sum(begin <= place < begin + count for place in without))
        begin += count
    return check_some(left)


def check_some(counts: list[int]) -> list[int]:
    """These counts, unless they leave nothing."""
    if sum(counts) < 1:
        raise UsageError("nothing would be left to run on")
    return counts
