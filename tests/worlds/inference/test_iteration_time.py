"""Sums of iterations and their inverse, curves and the attention grid, beside plain arithmetic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.model.timings import (
    CHUNK_KNOTS,
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    knot,
)
from proreus.worlds.inference.simulation.iteration_time import (
    IterationBatch,
    attention_seconds,
    completed,
    iteration,
    lasting,
    on_curve,
    timing_of,
)
from proreus.worlds.inference.simulation.lists import append, at, insert, new_lists, remove, with_room
from tests.worlds.inference.clusters import TABLE, layers

AXES = [
    np.array([knot(place, first) for place in range(count)])
    for count, first in (
        (CHUNK_KNOTS, FIRST_TOKENS),
        (CONTEXT_KNOTS, FIRST_TOKENS),
        (DECODE_KNOTS, 1),
        (CONTEXT_KNOTS, FIRST_TOKENS),
    )
]


@settings(max_examples=200, deadline=None)
@given(
    first=st.floats(1e-4, 1.0),
    share=st.sampled_from((0.0, 1e-9, 1e-4, 0.01)),
    count=st.integers(1, 3_000),
    part=st.floats(0.01, 0.99),
)
def test_iterations_that_are_over_are_counted(first: float, share: float, count: int, part: float) -> None:
    growth = share * first
    each = [first + growth * step for step in range(count + 1)]
    assert lasting(first, growth, count) == pytest.approx(sum(each[:count]), rel=1e-9)
    inside = lasting(first, growth, count) + part * each[count]
    assert completed(first, growth, inside) == count


def test_curves_go_on_beyond_their_ends() -> None:
    xs, ys = np.array([10.0, 20.0, 40.0]), np.array([1.0, 2.0, 3.0])
    assert [on_curve(xs, ys, 3, x) for x in (0.0, 10.0, 15.0, 20.0, 30.0, 60.0)] == pytest.approx(
        [0.0, 1.0, 1.5, 2.0, 2.5, 4.0]
    )


def test_the_table_is_asked_as_its_authors_did() -> None:
    timing = timing_of([TABLE])
    assert iteration(timing, 0, IterationBatch(100, 0.0, 0, 0, 1))[0] == pytest.approx(0.05)
    assert iteration(timing, 0, IterationBatch(0, 0.0, 16, 99_999, 16))[0] == pytest.approx(0.013)
    assert iteration(timing, 0, IterationBatch(84, 0.0, 16, 99_999, 17))[0] == pytest.approx(1.1 * 0.05)


@settings(max_examples=60, deadline=None)
@given(
    chunk=st.integers(0, 2_048),
    behind=st.integers(0, 16_384),
    decodes=st.integers(0, 256),
    context=st.integers(0, 16_384),
)
def test_attention_is_linear_between_knots(chunk: int, behind: int, decodes: int, context: int) -> None:
    profile = layers()
    asked = (chunk, behind, decodes, context)
    cells = [
        min(int(np.searchsorted(axis, x, "right")) - 1, len(axis) - 2)
        for axis, x in zip(AXES, asked, strict=True)
    ]
    expected = 0.0
    for corner in itertools.product((0, 1), repeat=4):
        weight = 1.0
        for axis, cell, x, up in zip(AXES, cells, asked, corner, strict=True):
            share = (x - axis[cell]) / (axis[cell + 1] - axis[cell])
            weight *= share if up else 1.0 - share
        expected += weight * profile.attention[*(cell + up for cell, up in zip(cells, corner, strict=True))]
    found, _ = attention_seconds(
        timing_of([profile]), 0, float(chunk), float(behind), (float(decodes), float(context))
    )
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_decoding_takes_longer_with_its_context() -> None:
    timing = timing_of([layers()])
    short, growth, alike = iteration(timing, 0, IterationBatch(0, 0.0, 8, 8 * 100, 8))
    later, _, _ = iteration(timing, 0, IterationBatch(0, 0.0, 8, 8 * 110, 8))
    assert growth > 0.0 and alike == 28  # until contexts reach 128
    assert later == pytest.approx(short + 10 * growth)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from("aird"), st.integers(0, 9)), max_size=60))
def test_ordered_lists_are_lists(steps: list[tuple[str, int]]) -> None:
    lists, plain = new_lists(2, 4), list[int]()
    for what, number in steps:
        if len(plain) + 1 >= lists.cells.shape[1]:
            lists = with_room(lists, 2 * lists.cells.shape[1])
        if what == "a":
            append(lists, 1, number)
            plain.append(number)
        elif what == "i":
            insert(lists, 1, min(number, len(plain)), number)
            plain.insert(min(number, len(plain)), number)
        else:
            assert remove(lists, 1, number) == (number in plain)
            if number in plain:
                plain.remove(number)
        assert [at(lists, 1, place) for place in range(lists.size[1])] == plain
    assert lists.size[0] == 0
