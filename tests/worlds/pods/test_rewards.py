"""Rewards, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium", reason="needs the extra learn")

from proreus.worlds.pods.rewards import allocation, completion, pod_seconds


def test_allocation_is_the_share_put_to_use() -> None:
    assert allocation(2_000.0, 3_000.0, 4_000.0) == 0.25
    assert allocation(3_000.0, 2_000.0, 4_000.0) == -0.25


def test_completion_charges_time_and_losses_in_units_of_the_work() -> None:
    assert completion(30.0, 0, 100.0, 60.0) == -0.5
    assert completion(30.0, 2, 15.0, 60.0) == -1.0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20) | st.just(math.inf)), max_size=8),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_pod_seconds_count_every_pod_in_every_second(
    pods: list[tuple[int, float]], since: int, length: int
) -> None:
    entered = np.array([float(enters) for enters, _ in pods])
    left = np.array([enters + stays for enters, stays in pods], dtype=np.float64)
    until = since + length
    counted = sum(
        1 for second in range(since, until) for enters, stays in pods if enters <= second < enters + stays
    )
    assert pod_seconds(entered, left, since, until) == pytest.approx(counted)
