"""The claims on speed and memory are made, whatever the speed of the machine that the tests run on."""

from __future__ import annotations

import pytest

from proreus.worlds.inference import bench


def test_speed_what_it_depends_on_and_memory_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SECONDS", 2.0), ("_HOUR", 8.0), ("_DAY", 48.0), ("_REPEATS", 1)):
        monkeypatch.setattr(bench, name, value)
    said: list[str] = []
    rows = list(bench.bench_inference(None, said.append))
    assert [row.what for row in rows] == [
        "mixed_pool, 70 requests/s on 25 + 15 instances",
        "the same at 140 requests/s",
        "a request where batches are four times as large",
        "a request on 100 + 60 instances",
        "a request of ten times as many",
        "a day at 100 requests/s",
        "memory of that day, at most",
        "memory of that day",
    ]
    assert all(row.ours > 0 and row.goal is not None for row in rows) and len(said) == 3
    assert rows[0].peer == bench.SPLITWISE_SIM
    assert rows[-1].ok, "memory grows with the length of a run"
