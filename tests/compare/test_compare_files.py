"""JSON and CSV keep their promise, and no file is ever half there."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from proreus.compare.exports import per_seed_csv, rows_csv, rows_json
from proreus.model.errors import WorkError
from proreus.model.files import make_folder, write_atomically
from tests.compare.compare_cases import made

KEYS = ["scenario", "policy", "measure", "unit", "better", "mean", "low", "high", "n"]
TWO_SEEDS = {"a,b": {"jct_mean": [1.0, 3.0]}, "策略": {"jct_mean": [2.0, 2.5], "failures": [0.0, 1.0]}}


def test_json_has_the_promised_form() -> None:
    content = json.loads(rows_json(made(TWO_SEEDS)))
    assert list(content) == ["world", "rows"]
    assert content["world"] == "pods"
    assert [list(row) for row in content["rows"]] == [KEYS] * 3
    first = content["rows"][0]
    assert (first["policy"], first["measure"], first["unit"], first["better"]) == (
        "a,b",
        "jct_mean",
        "s",
        "lower",
    )
    assert first["low"] < first["mean"] == 2.0 < first["high"]
    assert first["n"] == 2
    assert {row["better"] for row in content["rows"]} <= {"lower", "higher"}


def test_json_of_one_seed_has_null_for_the_interval() -> None:
    row = json.loads(rows_json(made({"a": {"jct_mean": [1.0]}})))["rows"][0]
    assert (row["mean"], row["low"], row["high"], row["n"]) == (1.0, None, None, 1)


def test_csv_says_the_same_as_json() -> None:
    comparison = made(TWO_SEEDS)
    rows = list(csv.DictReader(io.StringIO(rows_csv(comparison).decode())))
    expected = json.loads(rows_json(comparison))["rows"]
    assert [{**row, "mean": float(row["mean"])}["mean"] for row in rows] == [row["mean"] for row in expected]
    assert [row["policy"] for row in rows] == [row["policy"] for row in expected]
    assert list(rows[0]) == KEYS


def test_csv_of_every_run_leaves_absent_measures_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(per_seed_csv(made(TWO_SEEDS)).decode())))
    assert len(rows) == 4
    assert [row["failures"] for row in rows] == ["", "0.0", "", "1.0"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkError, match=r"rows\.json: cannot be written: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "rows.json", b"new")
    assert not list(tmp_path.iterdir())


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "rows.json", b"")
    with pytest.raises(WorkError, match="cannot be written"):
        write_atomically(tmp_path / "absent" / "rows.json", b"")
    with pytest.raises(WorkError, match="folder cannot be made"):
        make_folder(tmp_path / "file" / "plots")
