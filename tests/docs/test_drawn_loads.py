"""The page of drawn loads shows what a training draws."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from proreus.worlds.inference.datasets.load_shapes import FAMILIES, KEPT_BACK
from tests.docs.drawn_loads import PANELS, PATH, panels, picture
from tests.docs.kept import ROOT

_NUMBER = re.compile(r"-?\d+\.?\d*")


def test_the_picture_is_what_the_command_draws() -> None:
    """`make loads` after a change of shapes; another processor may round the last digit otherwise."""
    drawn, kept = picture(panels()), PATH.read_text()
    assert _NUMBER.sub("#", kept) == _NUMBER.sub("#", drawn)
    numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (kept, drawn)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.11)


def test_twelve_panels_of_which_those_held_out_are_marked() -> None:
    shown = panels()
    assert len(shown) == PANELS
    assert {panel.family for panel in shown if panel.kept_back} == set(KEPT_BACK)
    root = ElementTree.fromstring(picture(shown))
    names = [text.text or "" for text in root.iter() if text.get("class") == "name"]
    assert sum("held out" in name for name in names) == len(KEPT_BACK)
    assert len(names) == PANELS
    assert PATH.stat().st_size < 40_000


def test_the_page_names_every_family() -> None:
    page = (ROOT / "docs/worlds/inference-loads.md").read_text()
    for family in FAMILIES:
        trained = "**no**" if family in KEPT_BACK else "yes"
        assert re.search(rf"^\| `{family}` \| .* \| {re.escape(trained)} \|$", page, re.MULTILINE), family
