"""`proreus compare pods`, `proreus data list` and `proreus demo`: files, formats, seeds."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from proreus.worlds import registered, world
from proreus.worlds.pods.simulation.outcome import MEASURES
from tests.cli.runner import Ended, Proreus, openb_files, run_process

KEYS = ["scenario", "policy", "measure", "unit", "better", "mean", "low", "high", "n"]
COMPARE = ("compare", "pods", "--policies", "kube,random", "--out", "out")
FILES = {"command.txt", "report.html", "rows.csv", "rows.json", "per_seed.csv", "plots"}


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON result that do not depend on the speed of the machine, checked for their shape."""
    content = json.loads(path.read_text())
    assert list(content) == ["world", "rows"] and content["world"] == "pods"
    for row in content["rows"]:
        assert list(row) == KEYS
        assert (row["unit"], row["better"]) == (
            MEASURES[row["measure"]].unit,
            MEASURES[row["measure"]].better,
        )
        assert isinstance(row["mean"], int | float) and isinstance(row["n"], int)
        if row["n"] == 1:
            assert row["low"] is None and row["high"] is None
        else:
            assert row["low"] <= row["mean"] <= row["high"]
    return [row for row in content["rows"] if row["measure"] != "decisions_per_s"]


def test_json_has_its_documented_shape(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus(*COMPARE, "--seeds", "3", "--processes", "1", "--json", "r.json")
    assert (ended.code, ended.err) == (0, "")
    compared = rows(tmp_path / "r.json")
    assert {row["policy"] for row in compared} == {"kube", "random"}
    assert {(row["scenario"], row["n"]) for row in compared} == {("small", 3)}
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert (tmp_path / "out" / "rows.json").read_bytes() == (tmp_path / "r.json").read_bytes()
    assert "report: out/report.html" in ended.out
    with (tmp_path / "out" / "rows.csv").open(newline="") as file:
        assert next(csv.reader(file)) == KEYS
    with (tmp_path / "out" / "per_seed.csv").open(newline="") as file:
        seeds = [(row["policy"], row["seed"]) for row in csv.DictReader(file)]
    assert sorted(seeds) == [(policy, str(seed)) for policy in ("kube", "random") for seed in range(3)]
    assert "proreus compare pods --policies kube,random" in (tmp_path / "out" / "report.html").read_text()


def test_the_same_seed_gives_the_same_rows_on_any_number_of_processes(
    proreus: Proreus, tmp_path: Path
) -> None:
    words = (*COMPARE, "--seeds", "2", "--seed")
    assert proreus(*words, "4", "--processes", "1", "--json", "a.json").code == 0
    ended = run_process(*words, "4", "--processes", "2", "--json", "b.json", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert proreus(*words, "5", "--processes", "1", "--json", "c.json").code == 0
    assert rows(tmp_path / "a.json") == rows(tmp_path / "b.json")
    assert rows(tmp_path / "a.json") != rows(tmp_path / "c.json")


def test_one_seed_has_no_interval_and_several_scenarios_fit_one_file(
    proreus: Proreus, tmp_path: Path
) -> None:
    words = ("--seeds", "1", "--processes", "1", "--scenarios", "small,gpu", "--json", "r.json")
    assert proreus(*COMPARE, *words).code == 0
    compared = rows(tmp_path / "r.json")
    assert {(row["scenario"], row["n"]) for row in compared} == {("small", 1), ("gpu", 1)}


def test_files_of_the_users_own(proreus: Proreus, tmp_path: Path) -> None:
    words = (*COMPARE, *openb_files(tmp_path), "--seeds", "2", "--processes", "1", "--json", "r.json")
    assert proreus(*words).code == 0
    assert {row["scenario"] for row in rows(tmp_path / "r.json")} == {"openb:pods.csv"}


@pytest.mark.parametrize("out", ["[bold]", "[/bold]"])
def test_a_folder_name_with_markup_is_printed_as_it_is(out: str, proreus: Proreus, tmp_path: Path) -> None:
    words = ("compare", "pods", "--policies", "kube", *openb_files(tmp_path), "--seeds", "1", "--out", out)
    ended = proreus(*words, "--processes", "1")
    assert ended.code == 0
    assert f"report: {out}/report.html" in ended.out


def test_data_list_without_a_folder(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus("data", "list", "--json", "d.json")
    assert (ended.code, ended.err) == (0, "")
    datasets = json.loads((tmp_path / "d.json").read_text())["datasets"]
    names = [name for known in registered() for name in world(known).datasets]
    assert [row["name"] for row in datasets] == names
    keys = ["name", "here", "what", "licence", "address", "world"]
    assert all(list(row) == keys and row["here"] is False for row in datasets)


def test_data_list_with_some_data(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "data" / "openb").mkdir(parents=True)
    for name in ("openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"):
        (tmp_path / "data" / "openb" / name).write_text("")
    assert proreus("data", "list", "--data", "data", "--json", "d.json").code == 0
    here = {row["name"]: row["here"] for row in json.loads((tmp_path / "d.json").read_text())["datasets"]}
    assert here["openb/default"] and here["openb-trace/default"] and not here["gavel/*"]


def test_data_list_does_not_claim_what_is_not_there(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert proreus("data", "list", "--data", "data", "--json", "d.json").code == 0
    datasets = json.loads((tmp_path / "d.json").read_text())["datasets"]
    assert [row["name"] for row in datasets if row["here"]] == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """The demo with one seed, run once."""
    folder = tmp_path_factory.mktemp("demo")
    words = ("demo", "--seeds", "1", "--seed", "3", "--out", "report", "--json", "demo.json")
    return run_process(*words, cwd=folder), folder


def test_the_demo_ends_with_a_report(demo: tuple[Ended, Path]) -> None:
    ended, folder = demo
    assert (ended.code, ended.err) == (0, "")
    report = folder / "report" / "report.html"
    assert f"Open {report} in a browser." in ended.out
    assert report.read_text().rstrip().endswith("</html>")
    assert {path.name for path in (folder / "report").iterdir()} == FILES
    assert {row["scenario"] for row in rows(folder / "report" / "rows.json")} == {"gpu", "small"}


def test_the_demo_writes_json_where_it_is_told(demo: tuple[Ended, Path]) -> None:
    _, folder = demo
    assert rows(folder / "demo.json") == rows(folder / "report" / "rows.json")


def test_the_report_of_the_demo_names_a_command_that_repeats_it(demo: tuple[Ended, Path]) -> None:
    _, folder = demo
    assert "--seed 3" in (folder / "report" / "report.html").read_text()
