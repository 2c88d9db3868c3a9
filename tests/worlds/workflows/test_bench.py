"""The speed claims are made, whatever the speed of the machine that the tests run on."""

from __future__ import annotations

import pytest

from proreus.worlds.workflows import bench


def test_heft_and_the_network_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_SECONDS", 0.01)
    monkeypatch.setattr(bench, "_WORKS", 2)
    said: list[str] = []
    rows = list(bench.bench_workflows(None, said.append))
    assert [row.what for row in rows] == [
        "HEFT, generated workflows",
        "deadline, arrivals",
        "learned, arrivals",
    ]
    assert all(row.ours > 0 for row in rows) and rows[0].goal == 1e6 and len(said) == 3
