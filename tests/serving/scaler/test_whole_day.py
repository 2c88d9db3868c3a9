"""The loop over a day, in minutes: triggers that people write, the scaler, and a clock that runs ahead."""

from __future__ import annotations

import argparse

import pytest

from examples.keda.whole_day import _next, day, table


def asked(**more: object) -> argparse.Namespace:
    usual: dict[str, object] = {
        **{"scenario": "colocated", "rate": 25.0, "seconds": 240.0, "start_seconds": 45.0, "replicas": 2},
        **{"most": 8, "target": 0.0, "speed": 0.0, "seed": 0, "shadow": "", "shadow_log": None},
    }
    return argparse.Namespace(**{**usual, **more})


@pytest.mark.parametrize("controller", ["learned", "waiting", "running"])
def test_each_controller_scales_and_is_measured(controller: str) -> None:
    played = day(asked(), controller)
    assert played["controller"] == controller
    assert 1 <= played["replicas_least"] <= played["replicas_most"] <= 8  # type: ignore[operator]
    assert played["replicas_most"] > 2  # type: ignore[operator]
    assert played["seconds"] == pytest.approx(240.0, abs=2.0)
    assert 0.0 < played["served_as_promised"] <= 100.0  # type: ignore[operator]
    assert 4 * 240 / 3600 < played["gpu_hours"] < 4 * 8 * 240 / 3600  # type: ignore[operator]
    history = played["history"]
    assert isinstance(history, list)
    assert [sync["time"] for sync in history[:3]] == [10.0, 25.0, 40.0]
    # Nobody serves before it has started.
    ordered = next(sync["time"] for sync in history if sync["replicas"] > 2)
    serving = next(sync["time"] for sync in history if sync["serving"] > 2)
    assert serving >= ordered + 45.0


def test_a_clock_that_runs_ahead_waits_for_whoever_is_slow() -> None:
    played = day(asked(speed=100.0, seconds=120.0), "learned")
    assert played["speed"] <= 110.0  # type: ignore[operator]  # of 1.2 seconds, as clocks measure them
    assert played["seconds"] == pytest.approx(120.0, abs=2.0)
    assert played["served_as_promised"] > 50.0  # type: ignore[operator]
    assert "learned" in table([played])
    assert max(map(len, table([played]).splitlines())) <= 80


@pytest.mark.parametrize(("now", "then"), [(30.0, 45.0), (44.9, 45.0), (45.0, 60.0), (100.0, 105.0)])
def test_looks_that_were_missed_are_left_out(now: float, then: float) -> None:
    assert _next(30.0, 15.0, now) == then
