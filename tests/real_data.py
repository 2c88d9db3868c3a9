"""Where tests find real traces; they skip with a reason where there are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def real_data(folder: str) -> Path:
    """The data folder that holds `folder`; skips the test where no such data is at hand."""
    named = os.environ.get("PROREUS_DATA")
    root = Path(named) if named else _BESIDE
    if not (root / folder).is_dir():
        pytest.skip(f"real traces are not part of the project: set PROREUS_DATA to a folder with {folder}/")
    return root
