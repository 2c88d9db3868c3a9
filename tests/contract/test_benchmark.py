"""Rows of a benchmark: ratios, verdicts and the promised JSON."""

from __future__ import annotations

import json

import pytest

from proreus.contract.benchmark import BenchRow, as_json, claim

KEYS = ["what", "unit", "ours", "peer", "peer_name", "ratio", "goal", "ok"]


def test_higher_is_better() -> None:
    row = claim("rate", "1/s", 30.0, goal=20.0, peer=(10.0, "them"))
    assert row == BenchRow("rate", "1/s", 30.0, 10.0, "them", 3.0, 20.0, True)
    assert claim("rate", "1/s", 20.0, goal=20.0).ok is True
    assert claim("rate", "1/s", 19.9, goal=20.0).ok is False


def test_lower_is_better() -> None:
    row = claim("time", "s", 2.0, goal=1.0, better="lower", peer=(10.0, "them"))
    assert (row.ratio, row.ok) == (5.0, False)
    assert claim("time", "s", 1.0, goal=1.0, better="lower").ok is True


def test_without_goal_or_peer_there_is_no_verdict() -> None:
    row = claim("memory", "MiB", 5.0)
    assert (row.peer, row.peer_name, row.ratio, row.goal, row.ok) == (None, "", None, None, None)


@pytest.mark.parametrize(("ours", "peer"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_nothing_is_divided_by_zero(ours: float, peer: float, better: str) -> None:
    row = claim("x", "s", ours, better="lower" if better == "lower" else "higher", peer=(peer, "them"))
    assert row.ratio is None


def test_json_has_its_documented_shape() -> None:
    rows = [claim("rate", "1/s", 30.0, goal=20.0, peer=(10.0, "them")), claim("memory", "MiB", 5.0)]
    content = json.loads(json.dumps(as_json("pods", rows), allow_nan=False))
    assert list(content) == ["bench", "machine", "rows"]
    assert content["bench"] == "pods"
    assert set(content["machine"]) >= {"cores", "processor", "system", "python"}
    assert [list(row) for row in content["rows"]] == [KEYS, KEYS]
    assert content["rows"][1]["ok"] is None and content["rows"][0]["ok"] is True
