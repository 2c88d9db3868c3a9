"""CI that promises every part does not pass where one is missing; a user is told what was left out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import parts

_TESTS = """
import pytest

def test_of_a_part():
    pytest.skip("needs an etcd server: apt install etcd-server")

def test_by_nature():
    pytest.skip("plain processes need no image")

def test_of_nothing():
    pass
"""
_MODULE = """
import pytest
pytest.importorskip("no_such_library", reason="needs the extra learn")

def test_never_reached():
    pass
"""


def _ran(folder: Path, text: str, promised: str) -> tuple[int, str]:
    (folder / "test_sample.py").write_text(text)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "--rootdir",
        str(folder),
        "-c",
        os.devnull,
    ]
    done = subprocess.run(
        [*words, "-p", "no:cacheprovider", "--import-mode=importlib", str(folder / "test_sample.py")],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PROREUS_PARTS": promised},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_missing_part_fails_where_all_are_promised(tmp_path: Path) -> None:
    code, said = _ran(tmp_path, _TESTS, "all")
    assert code == 1
    assert "1 failed, 1 passed, 1 skipped" in said
    assert "skipped, where every part is promised" in said and "needs an etcd server" in said


def test_a_missing_library_fails_where_all_are_promised(tmp_path: Path) -> None:
    code, said = _ran(tmp_path, _MODULE, "all")
    assert code == 2 and "needs the extra learn" in said


def test_a_user_is_told_what_was_not_tested(tmp_path: Path) -> None:
    code, said = _ran(tmp_path, _TESTS, "")
    assert code == 0 and "1 passed, 2 skipped" in said
    assert "not tested here: 1 tests that need real parts" in said


def test_the_line_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "missing_packages", lambda: ["etcd-server", "runc"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    line = parts.left_out(Counter({"needs an etcd server": 90, "plain processes need no image": 4}))
    assert "90 tests" in line and "etcd-server runc" in line and "run as root" in line
    assert parts.left_out(Counter({"root may write anywhere": 2})) == ""
