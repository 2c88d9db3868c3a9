"""`proreus simulate vms` and `proreus compare vms`: results, files, and traces of the user's own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import EVENT_COLUMNS
from proreus.worlds.vms.simulation.outcome import MEASURES, RunFigures
from tests.cli.runner import Proreus, assert_refused
from tests.real_data import real_data
from tests.worlds.vms.tables import event_rows

QUICK = ("--scenario", "recovering@2", "--starts", "3", "--limit", "80")


def test_a_simulation_prints_writes_and_logs(proreus: Proreus, tmp_path: Path) -> None:
    words = ("simulate", "vms", *QUICK, "--policy", "best_fit", "--json", "r.json", "--log", "runs.csv")
    ended = proreus(*words)
    assert (ended.code, ended.err) == (0, "") and "best_fit on recovering@2" in ended.out
    content = json.loads((tmp_path / "r.json").read_text())
    assert [content[name] for name in ("world", "scenario", "policy", "seed")] == [
        "vms",
        "recovering@2",
        "best_fit",
        0,
    ]
    assert set(content["measures"]) <= set(MEASURES) and content["measures"]["placements"] > 0
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 and list(rows[0]) == list(RunFigures.__dataclass_fields__)
    assert sum(int(row["placed"]) for row in rows) == 3 * content["measures"]["placements"]
    assert proreus(*words, "--seed", "0").code == 0
    again = json.loads((tmp_path / "r.json").read_text())["measures"]
    assert {k: v for k, v in again.items() if k != "decisions_per_s"} == {
        k: v for k, v in content["measures"].items() if k != "decisions_per_s"
    }


def test_one_run_from_a_given_start(proreus: Proreus, tmp_path: Path) -> None:
    for row in (7, 1234):
        ended = proreus(
            "simulate", "vms", *QUICK[:2], "--limit", "80", "--start", str(row), "--log", "one.csv"
        )
        assert (ended.code, ended.err) == (0, "")
        with (tmp_path / "one.csv").open(newline="") as file:
            assert [run["start"] for run in csv.DictReader(file)] == [str(row)]
    refused = proreus("simulate", "vms", *QUICK[:2], "--start", "40000")
    assert_refused(refused, 2, "start 40000: the trace has the machines 0 to 39999")
    assert_refused(proreus("simulate", "vms", *QUICK[:2], "--start", "-1"), 2, "start -1")


def test_values_that_mean_nothing_are_refused(proreus: Proreus) -> None:
    for rate in ("-1", "nan", "inf"):
        assert_refused(proreus("simulate", "vms", *QUICK, "--watch", rate), 2, f"--watch {rate}")
    assert_refused(proreus("compare", "vms", "--scenarios", ",", *QUICK[2:]), 2, "--scenarios ','")


def test_more_starts_than_are_published_are_refused(proreus: Proreus) -> None:
    words = ("--scenario", "huawei/waiting", "--data", str(real_data("vms")), "--starts", "1001")
    message = "1,001 are more than the 1,000 published ones"
    assert_refused(proreus("simulate", "vms", *words), 2, message)
    compared = ("--policies", "first_fit", "--seeds", "1", "--processes", "1", "--out", "out")
    assert_refused(proreus("compare", "vms", *words, *compared), 2, message)


def test_options_reach_the_world(proreus: Proreus, tmp_path: Path) -> None:
    def placed(*words: str) -> float:
        assert proreus("simulate", "vms", *QUICK[:4], "--json", "r.json", *words).code == 0
        return float(json.loads((tmp_path / "r.json").read_text())["measures"]["placements"])

    usual = placed()
    assert placed("--release", "False") < usual
    assert placed("--servers", "4x40/90") > usual
    assert placed("--growing-nums", "1", "--expand-threshold", "0.5") > usual
    assert placed("--limit", "5") == 5
    assert placed("--double", "mem>1000") != usual
    assert proreus("simulate", "vms", *QUICK, "--full", "wait", "--json", "w.json").code == 0
    assert "total_wait" in json.loads((tmp_path / "w.json").read_text())["measures"]


def test_your_own_trace(proreus: Proreus, tmp_path: Path) -> None:
    rows = event_rows(generate_vms(300, 0))
    lines = [",".join(EVENT_COLUMNS), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    words = ("simulate", "vms", "--scenario", "recovering@2", "--trace", "mine.csv", "--starts", "2")
    ended = proreus(*words)
    assert ended.code == 0 and "recovering@2:mine.csv" in ended.out
    refused = proreus("simulate", "vms", "--scenario", "recovering@2x3", "--trace", "mine.csv")
    assert_refused(refused, 2, "--trace is your own")


def test_a_comparison_writes_what_comparisons_write(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus(
        *("compare", "vms", "--scenarios", "recovering@2,waiting@2", "--starts", "2", "--limit", "60"),
        *("--policies", "first_fit,random", "--seeds", "2", "--processes", "1", "--out", "out"),
        *("--json", "r.json"),
    )
    assert (ended.code, ended.err) == (0, "")
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["world"] == "vms"
    assert {row["scenario"] for row in content["rows"]} == {"recovering@2", "waiting@2"}
    for row in content["rows"]:
        measure = MEASURES[row["measure"]]
        assert (row["unit"], row["better"], row["n"]) == (measure.unit, measure.better, 2)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "command.txt",
        "report.html",
        "rows.csv",
        "rows.json",
        "per_seed.csv",
        "plots",
    }
    assert any((tmp_path / "out" / "plots").glob("*-ranking.svg"))
