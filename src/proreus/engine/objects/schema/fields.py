"""The fields of Kubernetes objects: types, and how patches merge them. Read from `fields.txt`, once.

Everything that must know a field's type stands on this one table: the check of an object's structure, the
strategic merge, server-side apply, and what the API's door tells of its schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Type:
    """What a field holds: a scalar by its word, a definition by its name, or a list or map of something."""

    word: str
    """"string", "int32", "Container"; of lists and maps "[]" and "{}"."""
    of: Type | None = None

    @property
    def definition(self) -> str:
        """The name of the definition that it is; "" for anything else."""
        return self.word if self.word[0].isupper() else ""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a definition."""

    name: str
    type: Type
    required: bool = False
    merge: str = ""
    """The key by which a strategic merge patch finds the elements of a list."""
    strategy: str = ""
    """Of strategic merge patches: "", "merge", "retainKeys", or "merge,retainKeys"."""
    list: str = ""
    """Of server-side apply: "atomic", "set" or "map"; "" as atomic."""
    keys: tuple[str, ...] = ()
    map: str = ""
    """"atomic", where a map is owned as a whole."""

    @property
    def merges(self) -> bool:
        """Whether a strategic merge patch merges into this list instead of replacing it."""
        return "merge" in self.strategy.split(",")


@dataclass(frozen=True, slots=True)
class Definition:
    """A structure with named fields."""

    name: str
    package: str
    fields: Mapping[str, Field]
    atomic: bool
    """Whether server-side apply owns it as a whole."""


@lru_cache(maxsize=1)
def kubernetes_version() -> str:
    """The Kubernetes whose fields these are, such as v1.37.0: the one version that the engine speaks."""
    named = re.search(r"v\d+\.\d+\.\d+", _lines()[0])
    if named is None:
        raise RuntimeError("fields.txt does not say of which Kubernetes it is")
    return named[0]


@lru_cache(maxsize=1)
def definitions() -> Mapping[str, Definition]:
    """All of them, by name; a kind's definition has the kind's name."""
    definitions: dict[str, Definition] = {}
    fields: dict[str, Field] = {}
    for line in _lines():
        if line.startswith("#"):
            continue
        if line.startswith(" "):
            field = _field(line.split())
            fields[field.name] = field
        else:
            name, package, *marks = line.split()
            fields = {}
            definitions[name] = Definition(name, package, fields, marks == ["map=atomic"])
    return definitions


def _lines() -> list[str]:
    return (files("proreus.engine.objects.schema") / "fields.txt").read_text(encoding="utf-8").splitlines()


def _field(words: list[str]) -> Field:
    name, type_, *marks = words
    stated = dict(mark.split("=", 1) for mark in marks if mark != "!")
    return Field(
        name,
        _type(type_),
        required="!" in marks,
        merge=stated.get("merge", ""),
        strategy=stated.get("strategy", ""),
        list=stated.get("list", ""),
        keys=tuple(stated["keys"].split(",")) if "keys" in stated else (),
        map=stated.get("map", ""),
    )


def _type(text: str) -> Type:
    if text[0] in "[{":
        return Type(text[0] + text[-1], _type(text[1:-1]))
    return Type(text)
