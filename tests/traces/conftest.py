"""Fixtures of the trace tests: the folder of real data, where it is present, and a way to write files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real traces (PROREUS_DATA, or the shared one beside the repository), or a skip."""
    named = os.environ.get("PROREUS_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real traces are not here ({folder}); set PROREUS_DATA to run this test")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file in a temporary folder and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
