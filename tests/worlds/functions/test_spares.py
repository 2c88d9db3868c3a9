"""The bits of ready instances with a free slot beside a sorted list of their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.indices import unsigned
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.spares import (
    offer_room,
    places_for,
    withdraw,
    withdraw_first,
    words_for,
)

FUNCTIONS, PLACES = 2, places_for(5_000)  # so many that the words of words are two
PLACE = st.one_of(st.integers(0, PLACES - 1), st.sampled_from((0, 63, 64, 4095, 4096, PLACES - 1)))
STEPS = st.lists(
    st.tuples(st.sampled_from(("offer", "fill", "go")), st.integers(0, FUNCTIONS - 1), PLACE), max_size=60
)


def test_there_are_more_places_than_instances() -> None:
    for instances in (1, 63, 64, 800, 5_000):
        assert instances < places_for(instances) <= 2 * instances + 128
        assert places_for(instances) % 64 == 0


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_the_oldest_with_room_is_as_in_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    """An instance's number is its place here; those at even places are of function 0."""
    words: Any = np.uint64(PLACES // 64)
    of = np.zeros((FUNCTIONS, c.FUNCTION_COLUMNS), dtype=np.int64)
    of[:, c.SPARE] = c.NO_PLACE
    instance = np.zeros((PLACES, c.INSTANCE_COLUMNS), dtype=np.int64)
    instance[:, c.PLACE] = np.arange(PLACES)
    instance[:, c.FUNCTION] = np.arange(PLACES) % FUNCTIONS
    spare = np.zeros((FUNCTIONS, words_for(PLACES)), dtype=np.uint64)
    known: list[set[int]] = [set() for _ in range(FUNCTIONS)]
    for what, function, drawn in steps:
        mine = known[function]
        if what == "offer":
            place = drawn - drawn % FUNCTIONS + function
            if place not in mine:
                mine.add(place)
                offer_room(of, instance, spare, words, unsigned(place))
        elif mine and what == "fill":
            mine.remove(min(mine))
            withdraw_first(of, spare, words, unsigned(function))
        elif mine:
            going = sorted(mine)[drawn % len(mine)]
            mine.remove(going)
            withdraw(of, instance, spare, words, going)
        assert of[function, c.SPARE] == min(mine, default=c.NO_PLACE)
    bits = sum(int(word).bit_count() for word in spare[:, : int(words)].flat)
    assert bits == sum(map(len, known))
