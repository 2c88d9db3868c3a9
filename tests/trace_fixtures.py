"""Fixtures of the trace tests: the folder of real data, where it is present, and a way to write files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import real_data as traces_at_hand


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real traces, or a skip."""
    return traces_at_hand.real_data("openb")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file in a temporary folder and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
