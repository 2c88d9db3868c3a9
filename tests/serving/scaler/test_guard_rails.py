"""Guard rails: whatever is wanted, limits and steps hold, and fewer come only after a calm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proreus.serving.scaler.guard_rails import within
from proreus.serving.scaler.trigger_metadata import Rails

COUNTS = st.integers(0, 100)


@given(
    st.tuples(st.integers(0, 20), st.integers(0, 20)), COUNTS, COUNTS, st.integers(1, 9), st.floats(0, 500)
)
def test_no_number_leaves_the_rails(
    limits: tuple[int, int], wanted: int, current: int, step: int, calm: float
) -> None:
    least, most = min(limits), max(*limits, 1)
    rails = Rails(least, most, step, 100.0)
    found = within(rails, wanted, current, calm)
    assert least <= found.replicas <= most
    if least <= current <= most:
        assert abs(found.replicas - current) <= step
        if calm < 100.0:
            assert found.replicas >= current
    if found.replicas != wanted:
        assert found.why


def test_what_is_within_is_left_alone() -> None:
    assert within(Rails(1, 10, 5, 60.0), 4, 6, 60.0).replicas == 4
    assert within(Rails(1, 10, 5, 60.0), 8, 6, 0.0).replicas == 8
    assert within(Rails(1, 10, 5, 60.0), 4, 6, 59.0).why == "fewer only after 60 s without a change"
