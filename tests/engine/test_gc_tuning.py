"""Searches for garbage: what was found to be in use is not looked at again, and garbage still goes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from proreus.engine.gc_tuning import GcOptions, GcTuning


class Thing:
    """Something that may refer to itself."""

    def __init__(self) -> None:
        self.other: Thing | None = None


def entangled() -> Thing:
    """Two that refer to each other: only a search finds that nobody else does."""
    one, two = Thing(), Thing()
    one.other, two.other = two, one
    return one


class Clock:
    """Moves when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def searches(clock: Clock) -> Iterator[GcTuning]:
    found = GcTuning(GcOptions(short=2, seconds=600.0, busy_seconds=3_600.0), clock)
    with found.kept_short():
        yield found


def test_what_a_search_found_in_use_is_not_looked_at_by_the_next(searches: GcTuning) -> None:
    kept = [Thing() for _ in range(1_000)]
    assert any(one is kept for one in gc.get_objects())
    gc.collect()
    assert not any(one is kept for one in gc.get_objects())  # set aside: not among what is searched


def test_garbage_that_was_never_set_aside_goes_with_the_next_search(searches: GcTuning) -> None:
    gone = weakref.ref(entangled())
    gc.collect()
    assert gone() is None


def test_what_was_set_aside_goes_when_nobody_refers_to_it(searches: GcTuning) -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    gc.collect()
    del thing
    assert gone() is None


def test_garbage_among_what_was_set_aside_goes_when_all_is_looked_at(
    searches: GcTuning, clock: Clock
) -> None:
    thing = entangled()
    gone = weakref.ref(thing)
    gc.collect()
    del thing
    gc.collect()
    assert gone() is not None
    searches.look_again()
    searches.look_again()
    assert searches.whole == 0  # too soon after the last time
    clock.now = 601.0
    searches.look_again()
    assert searches.whole == 1
    assert gone() is None


def test_all_is_looked_at_when_little_happens_unless_that_is_never(searches: GcTuning, clock: Clock) -> None:
    for clock.now in (601.0, 1_201.0, 3_599.0):
        gc.collect()
        gc.collect()
        searches.look_again()
        assert searches.whole == 0
    searches.look_again()  # nothing since
    assert searches.whole == 1
    for clock.now in (5_000.0, 7_200.0):
        gc.collect()
        gc.collect()
        searches.look_again()
    assert searches.whole == 2


def test_nothing_new_is_no_reason_to_look_at_all(searches: GcTuning, clock: Clock) -> None:
    clock.now = 601.0
    searches.look_again()
    assert searches.whole == 0


def test_the_next_full_search_does_not_wait_until_a_quarter_more_is_there(searches: GcTuning) -> None:
    """Python would, of all that the last one left; then it had much to look at."""
    before = searches.short
    kept = [[number] for number in range(200_000)]
    assert searches.short > before + 3
    assert len(kept) == 200_000


def test_python_searches_as_before_afterwards() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with GcTuning().kept_short():
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0
