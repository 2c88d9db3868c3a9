"""Schedules at and between their points."""

from __future__ import annotations

import pytest

from proreus.learning.optimiser import linear_decay

POINTS, VALUES = [0, 25, 90, 100], [0.9, 0.5, 0.2, 0.2]


@pytest.mark.parametrize(
    ("x", "value"), [(0, 0.9), (12.5, 0.7), (25, 0.5), (57.5, 0.35), (90, 0.2), (95, 0.2), (100, 0.2)]
)
def test_the_schedule_of_document_003(x: float, value: float) -> None:
    assert linear_decay(x, POINTS, VALUES) == pytest.approx(value)


def test_level_outside_its_points() -> None:
    assert linear_decay(-5, POINTS, VALUES) == 0.9
    assert linear_decay(500, POINTS, VALUES) == 0.2
    assert linear_decay(3, [0], [0.1]) == 0.1


def test_what_is_no_line_is_refused() -> None:
    with pytest.raises(ValueError, match="do not make a line"):
        linear_decay(0, [0, 1], [1])
    with pytest.raises(ValueError, match="do not make a line"):
        linear_decay(0, [], [])
    with pytest.raises(ValueError, match="do not rise"):
        linear_decay(0, [1, 0], [1, 2])
