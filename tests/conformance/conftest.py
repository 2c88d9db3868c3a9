"""The toy world is known while a law is tried, and to no other test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from gymnasium.envs.registration import registry

from proreus.policies import foreign
from proreus.worlds import WORLDS, register
from tests.cli.conftest import own_place, proreus
from tests.conformance.strangers import STRANGER
from tests.toy import TOY

__all__ = ["own_place", "proreus"]


@pytest.fixture(autouse=True)
def toy_is_registered() -> Iterator[None]:
    """As a program would register a world of its own."""
    register("toy", TOY)
    yield
    del WORLDS["toy"]
    for name in TOY.lanes:
        registry.pop(name, None)


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
    entry = EntryPoint("offered", f"{mine.stem}:First", foreign.GROUP)

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        return [entry] if (group, name) == (foreign.GROUP, "offered") else []

    monkeypatch.setattr(foreign, "entry_points", entry_points)
    return "offered"
