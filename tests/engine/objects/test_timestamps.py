"""Moments as Kubernetes writes them beside what `datetime` makes of them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from proreus.engine.objects.timestamps import micro_timestamp


@given(st.floats(-1e9, 4e9))
@example(1.5)
@example(0.9999995)
@example(-0.25)
@example(-1e-7)
@example(1_800_000_000.9999998)
def test_microseconds_are_those_of_datetime(seconds: float) -> None:
    expected = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert micro_timestamp(seconds) == expected
