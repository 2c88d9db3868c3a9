"""The calendar of running requests beside a heap of (time, request)."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.arrays import F64, I32, U64
from proreus.worlds.functions.simulation.calendar import day_of, next_end, note_end, strike_end
from proreus.worlds.functions.state.columns import DAYS, NOBODY

# Round ones, so that many are equal; some beyond a year of pages, some beyond all days.
DURATIONS = st.one_of(
    st.integers(0, 12).map(float),
    st.floats(0.0, 4.0 * DAYS, allow_subnormal=False),
    st.sampled_from((float(DAYS), 3.0 * DAYS, 1e300)),
)
PACES = st.sampled_from((0.25, 1.0, 3.0))
STEPS = st.lists(st.one_of(st.none(), DURATIONS), min_size=1, max_size=120)


@dataclass
class Pages:
    """The arrays of one lane."""

    pace: float
    due: F64 = field(default_factory=lambda: np.zeros(120))
    link: I32 = field(default_factory=lambda: np.zeros(120, dtype=np.int32))
    calendar: I32 = field(default_factory=lambda: np.full(DAYS, NOBODY, dtype=np.int32))
    marked: U64 = field(default_factory=lambda: np.zeros(DAYS // 64 + 1, dtype=np.uint64))

    def note(self, request: int, when: float) -> None:
        """A request ends then."""
        self.due[request] = when
        note_end(self.due, self.link, (self.calendar, self.marked), request, self.pace)

    def leave(self, now: float) -> int:
        """The request that ends next leaves, found from a day that is not after it."""
        pages = (self.calendar, self.marked)
        first, day = next_end(self.due, self.link, pages, day_of(now, self.pace), self.pace)
        strike_end(self.link, pages, first, day)
        return int(first)


@settings(max_examples=200, deadline=None)
@given(STEPS, PACES, st.randoms(use_true_random=False))
def test_requests_leave_as_from_a_heap(steps: list[float | None], pace: float, draw: random.Random) -> None:
    """A number: a request begins that runs so long. None: the next one ends."""
    numbers = draw.sample(range(120), 120)  # requests of a queue begin in any order
    pages, heap, now = Pages(pace), list[tuple[float, int]](), 0.0
    for step in [*steps, *[None] * len(steps)]:
        if step is not None:
            request = numbers.pop()
            pages.note(request, now + step)
            heapq.heappush(heap, (now + step, request))
        elif heap:
            when, expected = heapq.heappop(heap)
            assert pages.leave(now) == expected
            now = when
    assert not heap
    assert (pages.calendar == NOBODY).all()
    assert not pages.marked.any()
