"""The layers that the architecture page draws are those of the import contracts; every package has a row."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "architecture.md").read_text()
_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
_BELOW = {"gym_registration", "callable_modules"}
"""What stands lowest is told in words."""


def _layers(container: str) -> list[set[str]]:
    (layers,) = [contract["layers"] for contract in _CONTRACTS if contract.get("containers") == [container]]
    return [_names(layer) for layer in layers]


def _names(layer: str) -> set[str]:
    return {name.strip(" ()`\n") for name in layer.split("|")}


def test_the_packages_stand_in_the_page_as_in_the_contract() -> None:
    drawn = re.search(r"^    (cli > .*?)\n\n", _PAGE, re.DOTALL | re.MULTILINE)
    assert drawn is not None
    layers = [_names(layer) for layer in drawn[1].split(">")]
    assert layers == [layer for layer in _layers("proreus") if layer != _BELOW]
    assert all(name in _PAGE for name in _BELOW)


def test_the_rooms_of_the_engine_stand_in_the_page_as_in_the_contract() -> None:
    drawn = re.search(r"inside it `(client\s+>.*?)`", _PAGE, re.DOTALL)
    assert drawn is not None
    assert [_names(layer) for layer in drawn[1].split(">")] == _layers("proreus.engine")


def test_every_package_has_its_row() -> None:
    table = _PAGE[_PAGE.index("| package |") : _PAGE.index("    cli > ")]
    named = {name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in _quoted(cell)}
    packages = {path.parent.name for path in (ROOT / "src" / "proreus").glob("*/__init__.py")}
    assert packages - named == set()
    assert named - packages - {"base_env", "api"} == set(), "modules that are as good as a package"


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_every_room_of_the_engine_has_its_row() -> None:
    section = _PAGE[_PAGE.index("## The engine") : _PAGE.index("**1. Request.**")]
    rooms = set(re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE))
    there = {path.parent.name for path in (ROOT / "src" / "proreus" / "engine").glob("*/__init__.py")}
    assert rooms == there
