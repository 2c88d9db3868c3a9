"""The toy world is known while a law is tried, and to no other test."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from proreus.policies import plugins
from tests.cli.conftest import own_place, proreus
from tests.conformance.strangers import STRANGER
from tests.toy.conftest import toy_is_registered

__all__ = ["own_place", "proreus", "toy_is_registered"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's file, which can be imported as a module too."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine_of_conformance", raising=False)
    (tmp_path / "mine_of_conformance.py").write_text(STRANGER)
    return tmp_path / "mine_of_conformance.py"


@pytest.fixture
def offered(mine: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a policy that an installed package offers."""
    entry = EntryPoint("offered", f"{mine.stem}:First", plugins.GROUP)

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        return [entry] if (group, name) == (plugins.GROUP, "offered") else []

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    return "offered"
