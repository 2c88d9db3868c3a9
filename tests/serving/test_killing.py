"""kill -9 at random moments: what was acknowledged is there, and the live model is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kill(folder: Path, kills: int, seed: int) -> tuple[int, ...]:
    """(kills, acknowledged, cut, versions) of `tests.serving.killing` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.serving.killing", str(folder), str(kills), str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, re.findall(r"\d+", done.stdout)))


def test_fifteen_kills(tmp_path: Path) -> None:
    kills, acknowledged, _, versions = kill(tmp_path, 15, 0)
    assert kills == 15 and acknowledged >= 15 and versions >= 2


@pytest.mark.golden
def test_a_hundred_kills(tmp_path: Path) -> None:
    kills, acknowledged, _, versions = kill(tmp_path, 100, 1)
    assert kills == 100 and acknowledged > 300 and versions > 20
