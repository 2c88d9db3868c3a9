"""Where results go: to terminals of any width, to streams of any encoding, to stdout as JSON, nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.runner import Proreus, assert_refused, run_process

SIMULATE = ("simulate", "pods", "--scenario", "small@5")
COMPARE = ("compare", "pods", "--scenario", "small@5", "--policies", "kube,best_fit,fgd,gpu_clustering")


@pytest.mark.parametrize("place", ["-", "/dev/stdout"])
def test_json_has_stdout_to_itself(place: str, proreus: Proreus) -> None:
    ended = proreus(*SIMULATE, "--json", place)
    assert ended.code == 0
    assert json.loads(ended.out)["scenario"] == "small@5"
    assert "kube on small@5" in ended.err, "what is said besides goes to stderr"
    assert not Path(place if place == "-" else "-").exists()


def test_quiet_says_nothing(proreus: Proreus, tmp_path: Path) -> None:
    for words in (SIMULATE, (*COMPARE, "--seeds", "2", "--processes", "1", "--out", "out")):
        ended = proreus(*words, "--quiet", "--json", "found.json")
        assert (ended.code, ended.out, ended.err) == (0, "", "")
        assert json.loads((tmp_path / "found.json").read_text())
    assert (tmp_path / "out" / "report.html").exists()
    assert_refused(proreus("simulate", "pods", "--policy", "kueb", "--quiet"), 2, "did you mean 'kube'")


def test_a_pipe_begins_with_what_was_found(proreus: Proreus) -> None:
    ended = proreus(*COMPARE, "--seeds", "2", "--processes", "1", "--out", "out")
    assert ended.out.startswith("small@5, 2 seeds")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_tables_fit_and_nothing_is_cut(
    columns: int, proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ended = proreus(*COMPARE, "--seeds", "2", "--processes", "1", "--out", "out", "--json", "rows.json")
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= columns
    assert "…" not in ended.out
    for policy in COMPARE[-1].split(","):
        assert policy in ended.out
    for row in json.loads(Path("rows.json").read_text())["rows"]:
        if row["measure"] == "preemptions":
            assert f"{row['mean']:.2f} ±" in ended.out


@pytest.mark.parametrize(("encoding", "sign"), [("ascii", b"~"), ("latin-1", b"\xb1")])
def test_output_of_few_signs(encoding: str, sign: bytes, tmp_path: Path) -> None:
    words = (*COMPARE, "--seeds", "2", "--processes", "1", "--out", "out")
    few = {"PYTHONIOENCODING": encoding, "encoding": encoding}
    ended = run_process(*words, cwd=tmp_path, **few)
    assert (ended.code, ended.err) == (0, "")
    assert sign in ended.out.encode(encoding)


def test_a_drawing_and_help_of_few_signs(tmp_path: Path) -> None:
    watched = run_process(*SIMULATE, "--watch", "9", cwd=tmp_path, PYTHONIOENCODING="ascii", encoding="ascii")
    assert watched.code == 0 and "####" in watched.out
    assert run_process("compare", "--help", cwd=tmp_path, PYTHONIOENCODING="ascii").code == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("compare", "pods", "--polices", "kube"), "--policies"),
        (("simulate", "vms", "--polcy", "best_fit"), "--policy"),
        (("demo", "--sedes", "3"), "--seeds"),
        (("data", "list", "--dta", "x"), "--data"),
    ],
)
def test_a_flag_that_is_none_is_told_the_nearest_one(
    words: tuple[str, ...], meant: str, proreus: Proreus
) -> None:
    assert_refused(proreus(*words), 2, f"did you mean {meant}?", words[-2])


def test_a_report_of_another_run_is_kept(proreus: Proreus, tmp_path: Path) -> None:
    words = (*COMPARE, "--processes", "1", "--out", "out", "--seeds")
    assert proreus(*words, "2").code == 0
    before = (tmp_path / "out" / "rows.csv").read_bytes()
    assert "kept" not in proreus(*words, "2").out, "the same command again"
    assert "kept: out/earlier-1" in proreus(*words, "3").out
    assert (tmp_path / "out" / "earlier-1" / "report.html").exists()
    kept = (tmp_path / "out" / "earlier-1" / "rows.csv").read_bytes()
    assert [line for line in kept.splitlines() if b"per_s" not in line] == [
        line for line in before.splitlines() if b"per_s" not in line
    ]
    assert "kept: out/earlier-2" in proreus(*words, "2").out


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = proreus(*COMPARE, "--seeds", "2", "--out", "file/report")
    assert_refused(ended, 1, "file/report: cannot be written", "is no folder")
    assert ended.out == ""
    if os.geteuid():  # nothing is closed to root
        (tmp_path / "closed").mkdir(mode=0o500)
        assert_refused(proreus(*COMPARE, "--out", "closed/report"), 1, "Permission denied")


def test_a_folder_without_a_checkpoint_says_so(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("run", "runs/x"):
        ended = proreus(*SIMULATE, "--policy", name)
        assert_refused(ended, 2, repr(name), "neither a checkpoint nor a training run")


def test_a_curve_needs_a_run(proreus: Proreus, tmp_path: Path) -> None:
    assert_refused(proreus("curve"), 2, "at least one training run")
    assert not list(tmp_path.iterdir())
