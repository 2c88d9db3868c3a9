"""A short run of the fuzzer against a real `proreus up`."""

from __future__ import annotations

from pathlib import Path

from tests.engine.api.fuzz import fuzz


def test_seconds_of_random_requests_break_nothing(tmp_path: Path) -> None:
    report = fuzz(5.0, 7, tmp_path / "up")
    assert report["requests"] > 50
    assert not any(answer.endswith(" 401") for answer in report["answers"]), (
        "whoever is not known tries nothing"
    )
    assert not report["failed"], report["first_failures"]
    assert not report["unscheduled_afterwards"], report["unscheduled_afterwards"]
