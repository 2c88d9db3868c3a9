"""Every kind of store, for the tests that all must pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.engine.store.options import StoreOptions
from tests.engine.store.stores import Opener, opener


@pytest.fixture(params=["memory", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a store that nobody else uses."""
    return opener(request.param, tmp_path, StoreOptions())
