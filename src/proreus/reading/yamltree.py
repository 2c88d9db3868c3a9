"""YAML as a tree that remembers its lines, and a cursor over it whose errors name file, line and field.

Called by the readers of Kubernetes-like YAML (`manifests` and its parts, `k8ssim`). The tree is built from
PyYAML's events and not by its loader: the loader drops the lines, and its C version crashes on input that
is nested too deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from proreus.model.errors import InputError
from proreus.model.resources import parse_quantity
from proreus.reading.table import parse_number, shown
from proreus.reading.textfile import read_text

DEEPEST = 64
"""Levels of nesting; a Kubernetes object has about fifteen."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "false": False}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Scalar:
    """A single value, as written."""

    text: str
    plain: bool
    line: int


@dataclass(frozen=True)
class Sequence:
    """A list."""

    items: tuple[Tree, ...]
    line: int


@dataclass(frozen=True)
class Mapping:
    """Keys with values, in the order of the file."""

    entries: dict[str, Tree]
    line: int


Tree: TypeAlias = Scalar | Sequence | Mapping


@dataclass(frozen=True)
class Entry:
    """A place in a YAML file: a value, and the path of keys that leads to it."""

    file: Path
    field: str
    tree: Tree

    def fail(self, message: str) -> InputError:
        """The error for something wrong with this value."""
        return InputError(message, file=self.file, line=self.tree.line, field=self.field or None)

    def get(self, key: str) -> Entry | None:
        """The value under `key`, or None where it is absent or null."""
        if not isinstance(self.tree, Mapping):
            raise self.fail("a mapping is needed here")
        value = self.tree.entries.get(key)
        if value is None or _is_null(value):
            return None
        return Entry(self.file, f"{self.field}.{key}" if self.field else key, value)

    def find(self, path: str) -> Entry | None:
        """The value under the keys of a dotted path, or None where one of them is absent."""
        found: Entry | None = self
        for key in path.split("."):
            if found is None:
                return None
            found = found.get(key)
        return found

    def require(self, path: str) -> Entry:
        """The value under a dotted path; an error where it is absent."""
        found = self.find(path)
        if found is None:
            field = f"{self.field}.{path}" if self.field else path
            raise InputError("the field is missing", file=self.file, line=self.tree.line, field=field)
        return found

    def children(self, path: str) -> tuple[Entry, ...]:
        """The elements of the list under a dotted path; none where it is absent."""
        found = self.find(path)
        if found is None:
            return ()
        if not isinstance(found.tree, Sequence):
            raise found.fail("a list is needed here")
        return tuple(
            Entry(self.file, f"{found.field}[{position}]", item)
            for position, item in enumerate(found.tree.items)
        )

    def entries(self, path: str) -> tuple[tuple[str, Entry], ...]:
        """The keys and values of the mapping under a dotted path, nulls left out; none where it is absent."""
        found = self.find(path)
        if found is None:
            return ()
        if not isinstance(found.tree, Mapping):
            raise found.fail("a mapping is needed here")
        return tuple(
            (key, Entry(self.file, f"{found.field}.{key}", value))
            for key, value in found.tree.entries.items()
            if not _is_null(value)
        )

    def texts(self, path: str) -> tuple[tuple[str, str], ...]:
        """The mapping of strings under a dotted path (labels, annotations), sorted by key."""
        return tuple(sorted((key, value.text()) for key, value in self.entries(path)))

    def text(self) -> str:
        """The value as a string, as written."""
        if not isinstance(self.tree, Scalar):
            raise self.fail("a single value is needed here")
        return self.tree.text

    def text_at(self, path: str, default: str = "") -> str:
        """The string under a dotted path, or `default` where it is absent."""
        found = self.find(path)
        return default if found is None else found.text()

    def truth_at(self, path: str) -> bool:
        """The boolean under a dotted path; false where it is absent."""
        found = self.find(path)
        if found is None:
            return False
        if found.text() not in _TRUTH:
            raise found.fail(f"{shown(found.text())} is neither true nor false")
        return _TRUTH[found.text()]

    def integer(self, *, minimum: int = 0, maximum: int = 2**31) -> int:
        """A whole number between the bounds."""
        value = self.number(minimum=minimum)
        if not value.is_integer():
            raise self.fail(f"{shown(self.text())} is not a whole number")
        if value > maximum:
            raise self.fail(f"{shown(self.text())} is above {maximum}")
        return int(value)

    def integer_at(self, path: str, default: int, *, minimum: int = 0, maximum: int = 2**31) -> int:
        """The whole number under a dotted path, or `default` where it is absent."""
        found = self.find(path)
        return default if found is None else found.integer(minimum=minimum, maximum=maximum)

    def number(self, *, minimum: float = 0.0) -> float:
        """A finite number of at least `minimum`."""
        try:
            return parse_number(self.text(), minimum=minimum)
        except ValueError as error:
            raise self.fail(str(error)) from None

    def quantity(self, *, scale: int = 1) -> int:
        """A Kubernetes quantity times `scale`."""
        try:
            return parse_quantity(self.text(), scale=scale)
        except ValueError as error:
            raise self.fail(str(error)) from None


def read_documents(path: Path) -> tuple[Entry, ...]:
    """The documents of a YAML (or JSON) file, empty ones left out."""
    events = yaml.parse(read_text(path), Loader=_LOADER)
    try:
        documents = tuple(_documents(path, events))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise InputError(f"not valid YAML: {error.problem or error.context}", file=path, line=line) from None
    except yaml.reader.ReaderError as error:
        raise InputError(f"not valid YAML: {error.reason}", file=path) from None
    if not documents:
        raise InputError("the file holds no YAML document", file=path)
    return documents


def _documents(path: Path, events: Iterator[yaml.Event]) -> Iterator[Entry]:
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            tree = _Builder(path, events).build(next(events), depth=0)
            if not _is_null(tree):
                yield Entry(path, "", tree)


class _Builder:
    """Builds the tree of one document from its events."""

    def __init__(self, path: Path, events: Iterator[yaml.Event]) -> None:
        self._path, self._events = path, events
        self._anchors: dict[str, Tree] = {}

    def build(self, event: yaml.Event, depth: int) -> Tree:
        line = 0 if event.start_mark is None else event.start_mark.line + 1
        if depth > DEEPEST:
            raise self._fail(f"nested deeper than {DEEPEST} levels", line)
        tree: Tree
        match event:
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise self._fail(f"the alias *{event.anchor} has no anchor before it", line)
                return self._anchors[event.anchor]
            case yaml.ScalarEvent():
                tree = Scalar(event.value, event.implicit[0], line)
            case yaml.SequenceStartEvent():
                tree = Sequence(tuple(self._items(depth)), line)
            case yaml.MappingStartEvent():
                tree = Mapping(self._entries(depth), line)
            case _:
                raise self._fail(f"unexpected {type(event).__name__}", line)
        if event.anchor is not None:
            self._anchors[event.anchor] = tree
        return tree

    def _items(self, depth: int) -> Iterator[Tree]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self.build(event, depth + 1)

    def _entries(self, depth: int) -> dict[str, Tree]:
        entries: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self.build(event, depth + 1)
            if not isinstance(key, Scalar):
                raise self._fail("a key must be a single value", key.line)
            value = self.build(next(self._events), depth + 1)
            if key.text == "<<" and key.plain:
                merged.update(self._merge(value))
            elif key.text in entries:
                raise self._fail(f"the key {shown(key.text)} appears twice", key.line)
            else:
                entries[key.text] = value
        return {**merged, **entries}

    def _merge(self, value: Tree) -> dict[str, Tree]:
        sources = value.items if isinstance(value, Sequence) else (value,)
        merged: dict[str, Tree] = {}
        for source in reversed(sources):  # of several sources the first one wins
            if not isinstance(source, Mapping):
                raise self._fail("only mappings can be merged with <<", source.line)
            merged.update(source.entries)
        return merged

    def _fail(self, message: str, line: int) -> InputError:
        return InputError(message, file=self._path, line=line)


def _is_null(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.plain and tree.text in _NULLS
