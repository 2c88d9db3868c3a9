"""The horizontal pod autoscaler: tolerance, windows, policies and bounds."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client", reason="the exporter needs the extra `serve`")

from proreus.worlds.inference.exporter.autoscaler import AT_ONCE, Behavior, HorizontalPodAutoscaler


def followed(behavior: Behavior, amounts: list[float], target: float = 1.0, begin: int = 1) -> list[int]:
    """Replicas after each look, of one to twenty."""
    autoscaler, replicas, history = HorizontalPodAutoscaler(behavior, 1, 20), begin, []
    for step, amount in enumerate(amounts):
        replicas = autoscaler.replicas(15.0 * step, amount, target, replicas)
        history.append(replicas)
    return history


def test_one_that_does_as_it_is_told() -> None:
    assert followed(AT_ONCE, [4, 11, 12, 3, 0]) == [4, 11, 12, 3, 1]


def test_within_the_tolerance_nothing_happens() -> None:
    assert followed(Behavior(down_window=0.0), [12.0, 13.0, 10.0], begin=11) == [11, 13, 10]


def test_the_most_that_was_wanted_in_a_window_is_kept() -> None:
    amounts = [8.0, *[0.0] * 25]
    history = followed(Behavior(), amounts, begin=4)
    assert history[:20] == [8] * 20
    assert history[20:] == [8, *[1] * 5]  # 300 s after it was last wanted, at the next look


def test_a_period_goes_as_far_as_its_policies() -> None:
    assert followed(Behavior(), [20.0, 20.0, 20.0], begin=1) == [5, 10, 20]
    slow = Behavior(up_percent=0.0, up_pods=1, down_window=0.0, down_percent=50.0)
    assert followed(slow, [20.0, 20.0, 1.0, 1.0, 1.0], begin=8) == [9, 10, 5, 2, 1]


def test_a_window_upwards_waits_for_what_was_always_wanted() -> None:
    assert followed(Behavior(up_window=30.0), [2.0, 9.0, 9.0, 9.0], begin=2) == [2, 2, 2, 6]


def test_waiting_requests_over_a_target() -> None:
    assert followed(Behavior(), [0.0, 11.0, 26.0], target=5.0, begin=1) == [1, 3, 6]
