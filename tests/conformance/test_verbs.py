"""Laws of the verbs: one comparison writes a report, every run can be watched, Python says the same."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

import proreus as package
from proreus.cli.main import main
from proreus.compare.report.player import player_element
from proreus.contract.play import step
from proreus.model.errors import UsageError
from tests.cli.runner import Proreus, assert_refused
from tests.conformance.cases import BY_THE_CLOCK, Case, every_kind, work_of


@every_kind
def test_a_comparison_with_strangers_writes_a_report_with_a_replay(
    case: Case, proreus: Proreus, mine: Path, offered: str, tmp_path: Path
) -> None:
    policies = [case.rules[0], f"{mine}:First", f"{mine.stem}:First", offered]
    words = ("--policies", ",".join(policies), "--seeds", "2", "--processes", "1", "--out", "out")
    ended = proreus("compare", case.world.name, "--scenario", case.file(tmp_path), *words)
    assert ended.code == 0, ended.err
    assert "report: out/report.html" in ended.out
    page = Path("out/report.html").read_text()
    assert player_element(0) in page and all(name in page for name in policies)
    rows = _rows(json.loads(Path("out/rows.json").read_text()))
    assert {row["measure"] for row in rows} <= set(case.world.measures)
    with Path("out/per_seed.csv").open() as file:
        runs = {(run["policy"], run["seed"]) for run in csv.DictReader(file)}
    assert runs == {(name, seed) for name in policies for seed in "01"}
    # The same through Python, whatever the clock says.
    same = package.compare(case.world.name, case.scenario, policies, seeds=2, processes=1)
    assert _kept(same.rows) == _kept(rows)
    assert "┃" in repr(same) and case.rules[0] in repr(same) and "…" not in repr(same)
    assert isinstance(same.plot(), Figure)


def _rows(document: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document["rows"] if isinstance(document, dict) else document
    return rows


def _kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in json.loads(json.dumps(rows)) if row["measure"] not in BY_THE_CLOCK]


@every_kind
def test_python_says_what_the_command_line_says(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    words = ("--scenario", case.file(tmp_path), "--policy", case.main, "--seed", "2", "--json", "found.json")
    ended = proreus("simulate", case.world.name, *words, "--log", "log.csv")
    assert ended.code == 0, ended.err
    document = json.loads(Path("found.json").read_text())
    same = package.simulate(case.world.name, case.scenario, case.main, seed=2, record=True)
    ours = same.to_json()
    for report in (document, ours):
        report["measures"] = {
            key: value for key, value in report["measures"].items() if key not in BY_THE_CLOCK
        }
    assert document == ours
    with Path("log.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(same.log)
    assert "┃" in repr(same) and isinstance(same.plot(), Figure)
    assert [row["measure"] for row in same.rows] == [
        name for name in case.world.measures if name in same.measures
    ]


@every_kind
def test_pandas_is_asked_for_when_it_is_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    result = package.simulate(case.world.name, case.scenario, case.main)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        result.to_pandas()
    stand_in = ModuleType("pandas")
    stand_in.DataFrame = lambda rows: SimpleNamespace(rows=rows)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", stand_in)
    assert result.to_pandas().rows == result.rows


@every_kind
def test_a_run_that_is_not_recorded_cannot_be_drawn(case: Case) -> None:
    with pytest.raises(UsageError, match="record=True"):
        package.simulate(case.world.name, case.scenario, case.main).plot()


@every_kind
def test_every_run_can_be_watched(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    words = ("simulate", case.world.name, "--scenario", case.file(tmp_path), "--policy", case.main)
    watched = proreus(*words, "--watch", "1000")
    assert watched.code == 0, watched.err
    work = case.world.shown(work_of(case))
    simulation, policy = case.scenario.start(work, 0), case.make(case.main).fresh(0)
    last = simulation.screen()
    while step(simulation, policy):
        last = simulation.screen() or last
    assert last and "\n".join(line.rstrip() for line in last) in "\n".join(
        line.rstrip() for line in watched.out.splitlines()
    )
    plain = proreus(*words)
    assert last[0] not in plain.out
    for value in ("nan", "inf", "-1"):
        assert_refused(proreus(*words, f"--watch={value}"), 2, "--watch")


@every_kind
def test_help_tells_of_the_world(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("simulate", "compare"):
        assert main([verb, case.world.name, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert case.world.name in text and all(
            name in text for name in case.world.policies(case.scenario).names
        )
