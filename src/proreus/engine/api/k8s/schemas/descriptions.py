"""What `kubectl explain` says of definitions and their fields: `descriptions.txt`, read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

_EVERYWHERE = {
    "apiVersion": "The version of the kind.",
    "kind": "The kind of the object.",
    "metadata": "Name, labels and the like.",
}


@cache
def _descriptions() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Definition -> (what it is, field -> what it is for)."""
    text = resources.files(__package__).joinpath("descriptions.txt").read_text(encoding="utf-8")
    _comment, *blocks = text.strip().split("\n\n")
    descriptions = {}
    for block in blocks:
        first, *lines = block.splitlines()
        name, _, about = first.partition(": ")
        descriptions[name] = about, dict(line.strip().split(" ", 1) for line in lines)
    return descriptions


def about_definition(name: str) -> str:
    """What it is; "" where nothing is said."""
    return _descriptions().get(name, ("", {}))[0]


def about_field(definition: str, name: str) -> str:
    """What a field is for; "" where nothing is said."""
    fields = _descriptions().get(definition, ("", {}))[1]
    return fields.get(name) or _EVERYWHERE.get(name, "")
