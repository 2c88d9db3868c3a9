"""YAML files as trees that remember their lines.

Called by the readers of Kubernetes-like YAML (`manifests` and its parts, `k8ssim`). The tree is built from
PyYAML's events and not by its loader: the loader drops the lines, and its C version crashes on input that
is nested too deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from proreus.data.cursor import Entry, Mapping, Scalar, Sequence, Tree, is_null
from proreus.data.table import shown
from proreus.data.text_file import read_text
from proreus.model.errors import InputError

DEEPEST = 64
"""Levels of nesting; a Kubernetes object has about fifteen."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_documents(path: Path) -> tuple[Entry, ...]:
    """The documents of a YAML (or JSON) file, empty ones left out."""
    return parse_documents(read_text(path), path)


def parse_documents(text: str, path: Path) -> tuple[Entry, ...]:
    """The documents of a text; `path` is where errors say that it is from."""
    events = yaml.parse(text, Loader=_LOADER)
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
            if not is_null(tree):
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

    def _fail(self, message: str, line: int | None) -> InputError:
        return InputError(message, file=self._path, line=line)
