"""What is said of compiling: only where kernels are compiled, and how far that is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proreus.cli import compile_progress
from proreus.cli.arguments import CommonArguments
from proreus.kernels.compile_notice import heard_by, tell

KERNELS = """
from proreus.cli.arguments import CommonArguments
from proreus.cli.compile_progress import compiling_said
from proreus.kernels.jit import compiled


@compiled
def doubled(number):
    return 2 * number


@compiled
def tripled(number):
    return doubled(number) + number


with compiling_said(CommonArguments()):
    assert tripled(2) == 6 and tripled(3) == 9
"""


def said_by(file: Path, cache: Path) -> str:
    """What a process says on stderr that calls the kernels of the file."""
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": "", "HOME": str(cache)}
    ended = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def test_it_is_said_where_kernels_are_compiled_and_not_where_they_are_kept(tmp_path: Path) -> None:
    file, cache = tmp_path / "kernels.py", tmp_path / "cache"
    file.write_text(KERNELS)
    assert (
        said_by(file, cache) == "proreus: compiling kernels, once for this version (takes about a minute)\n"
    )
    assert said_by(file, cache) == ""


def test_how_far_it_is_is_said_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("proreus.cli.compile_progress.time.monotonic", lambda: now)
    with compile_progress.compiling_said(CommonArguments()):
        for _ in range(25):
            tell()
            now += 1.0
    tell()
    assert capsys.readouterr().err.splitlines() == [
        f"proreus: {compile_progress.COMPILING} ({far})"
        for far in ("takes about a minute", "11 so far", "21 so far")
    ]
    with compile_progress.compiling_said(CommonArguments(quiet=True)):
        tell()
    assert capsys.readouterr().err == ""


def test_each_hears_its_own_count() -> None:
    outer: list[int] = []
    inner: list[int] = []
    with heard_by(outer.append):
        tell()
        with heard_by(inner.append):
            tell()
        tell()
    tell()
    assert (outer, inner) == ([1, 2, 3], [1])
