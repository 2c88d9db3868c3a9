"""Histograms as Prometheus has them: what they tell of a promise and of late requests, and how exactly."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Share:
    """A share that is known up to the width of a bucket."""

    low: float
    value: float
    """Interpolated between the two."""
    high: float

    @property
    def width(self) -> float:
        """How far apart the two are."""
        return self.high - self.low


KEPT = Share(1.0, 1.0, 1.0)
"""Where nothing was observed, nothing was late."""


@dataclass(frozen=True)
class Histogram:
    """Observations counted by upper bounds."""

    bounds: tuple[float, ...]
    """Rising; the last one is infinite."""
    counts: tuple[float, ...]
    """At or below each bound."""
    total: float
    """Sum of what was observed."""

    def __post_init__(self) -> None:
        if len(self.bounds) != len(self.counts) or not self.bounds or self.bounds[-1] != math.inf:
            raise ValueError("a histogram has a count for each bound, and the last bound is infinite")
        if any(low >= high for low, high in pairwise(self.bounds)):
            raise ValueError("the bounds of a histogram rise")
        if self.counts[0] < 0 or any(low > high for low, high in pairwise(self.counts)):
            raise ValueError("the counts of a histogram never fall")

    @property
    def count(self) -> float:
        """All observations."""
        return self.counts[-1]

    @property
    def mean(self) -> float:
        """0 where nothing was observed."""
        return self.total / self.count if self.count else 0.0

    def since(self, before: Histogram) -> Histogram | None:
        """What was observed after `before`; None: it has begun anew."""
        if self.bounds != before.bounds or self.total < before.total:
            return None
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        if counts[0] < 0 or any(low > high for low, high in pairwise(counts)):
            return None
        return Histogram(self.bounds, counts, self.total - before.total)

    def share_within(self, limit: float) -> Share:
        """Of observations at or below a limit."""
        if not self.count:
            return KEPT
        place = bisect_left(self.bounds, limit)
        high = self.counts[place] / self.count
        if self.bounds[place] == limit:
            return Share(high, high, high)
        low = self.counts[place - 1] / self.count if place else 0.0
        if math.isinf(self.bounds[place]):
            return Share(low, low, high)
        begin = self.bounds[place - 1] if place else 0.0
        way = (limit - begin) / (self.bounds[place] - begin)
        return Share(low, low + way * (high - low), high)

    def quantile(self, share: float) -> float:
        """The value that so many observations do not exceed; beyond the last finite bound: that bound."""
        if not self.count:
            return 0.0
        rank = share * self.count
        place = bisect_left(self.counts, rank)
        if math.isinf(self.bounds[place]):
            return self.bounds[place - 1] if place else 0.0
        begin, below = (self.bounds[place - 1], self.counts[place - 1]) if place else (0.0, 0.0)
        inside = self.counts[place] - below
        return begin + (self.bounds[place] - begin) * ((rank - below) / inside if inside else 1.0)


def nothing(bounds: tuple[float, ...]) -> Histogram:
    """In which nothing was observed yet; bounds: the finite ones."""
    whole = (*bounds, math.inf)
    return Histogram(whole, (0.0,) * len(whole), 0.0)


def together(histograms: Iterable[Histogram]) -> Histogram | None:
    """One of all; those with other bounds than the first cannot be counted with it and are left out."""
    histogram: Histogram | None = None
    for one in histograms:
        if histogram is None:
            histogram = one
        elif histogram.bounds == one.bounds:
            counts = tuple(a + b for a, b in zip(histogram.counts, one.counts, strict=True))
            histogram = Histogram(histogram.bounds, counts, histogram.total + one.total)
    return histogram
