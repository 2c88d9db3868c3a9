"""Watchers of long objects cost little memory, whether they read or not: bytes are bounded, not numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("scene", "changes", "watchers"),
    [("reads", 200, 1), ("reads", 60, 30), ("past", 60, 6), ("past", 60, 200)],
)
def test_changes_of_long_objects_take_little_memory(scene: str, changes: int, watchers: int) -> None:
    """Each change has 0.9 MB: remembered by number they were 400 MB to 1 GB, in a process of 50 MB."""
    words = [sys.executable, "-m", "tests.engine.api.feed_memory", scene, str(changes), str(watchers)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    megabytes = json.loads(done.stdout)
    assert megabytes["most"] - megabytes["before"] < 300, megabytes
