"""`proreus bench live` on a small cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proreus.bench import live, live_wire
from proreus.bench.live_cluster import generate_cluster
from proreus.cli.main import main
from proreus.model.errors import WorkError


def test_the_whole_benchmark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_EVENTS", 200)
    monkeypatch.setattr(live, "_DECISIONS", 60)
    monkeypatch.setattr(live, "_STRANGERS", 5)
    monkeypatch.setattr(live_wire, "_QUESTIONS", 20)
    out = tmp_path / "bench.json"
    words = ["bench", "live", "--nodes", "30", "--pods", "200", "--events", "400", "--json", str(out)]
    code = main(words)
    rows = json.loads(out.read_text())["rows"]
    assert "proreus bench live" in capsys.readouterr().out
    assert code == (0 if all(row["ok"] is not False for row in rows) else 1)
    by_what = {row["what"]: row for row in rows}
    for what in ("add a running pod", "bind a pod", "remove a pod", "kube, a decision, 99 %"):
        assert by_what[what]["ours"] > 0
        assert by_what[what]["peer"] > by_what[what]["ours"]
    for name in ("kube", "learned"):
        assert by_what[f"/v1/decide, {name}, two changes, median"]["ours"] > 0
    assert by_what["memory by pod, beside the pod itself"]["ours"] > 0


def test_sizes_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "live", "--nodes", "0"]) == 2
    assert "--nodes, --pods and --events must be at least 1" in capsys.readouterr().err


def test_other_decisions_than_those_of_a_fresh_compile_fail_the_bench(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = live._Live(generate_cluster(20, 1))
    running.fill(50)
    monkeypatch.setattr(live, "place", lambda *_: None)
    with pytest.raises(WorkError, match="decides otherwise"):
        live._fresh_compile(running)
