"""Files written bit by bit appear together, or leave the old ones as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.model.errors import WorkError
from proreus.model.files import open_together


def test_files_appear_together_when_the_block_ends_well(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with open_together(paths) as (first, second):
        first.write(b"1")
        second.write(b"2")
        assert not any(path.exists() for path in paths)
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    assert sorted(tmp_path.iterdir()) == paths


def test_a_failure_leaves_the_old_files_and_nothing_else(tmp_path: Path) -> None:
    old = tmp_path / "a"
    old.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), open_together([old, tmp_path / "b"]) as (first, _):
        first.write(b"new")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == [old] and old.read_bytes() == b"old"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="cannot be written"), open_together([tmp_path / "none" / "a"]):
        pass
