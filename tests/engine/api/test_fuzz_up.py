"""Short runs of the fuzzer against a real `proreus up`."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.engine.api import fuzz as fuzzing
from tests.engine.api.fuzz import fuzz
from tests.engine.faults.processes import EngineProcess
from tests.engine.faults.processes import up as real_up


def test_seconds_of_random_requests_break_nothing(tmp_path: Path) -> None:
    report = fuzz(5.0, 7, tmp_path / "up")
    assert report["requests"] > 50
    assert not any(answer.endswith(" 401") for answer in report["answers"]), (
        "whoever is not known tries nothing"
    )
    right = sum(report["codes"].get(code, 0) for code in ("200", "201"))
    assert right > report["requests"] / 5, "most of what it sends is about nothing"
    assert not report["failed"], report["first_failures"]
    assert not report["unscheduled_afterwards"], report["unscheduled_afterwards"]


def test_an_engine_that_ends_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[EngineProcess] = []

    def up(folder: Path, *words: str) -> tuple[EngineProcess, str]:
        engine, server = real_up(folder, *words)
        started.append(engine)
        return engine, server

    def end_it() -> None:
        while not started or started[0].process is None or not (started[0].folder / "ready.json").exists():
            time.sleep(0.05)
        time.sleep(2)
        started[0].process.kill()

    monkeypatch.setattr(fuzzing, "up", up)
    threading.Thread(target=end_it, daemon=True).start()
    began = time.monotonic()
    report = fuzz(600.0, 7, tmp_path / "up")
    assert time.monotonic() - began < 300
    assert not report["alive"] and report["unscheduled_afterwards"] == "the engine ended"
