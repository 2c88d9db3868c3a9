"""Objects from YAML or JSON, with the line where each began, and objects as YAML."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.resolver import Resolver

from proreus.data.cursor import Entry, Mapping, Scalar, Tree
from proreus.data.cursor import Sequence as TreeSequence
from proreus.data.yaml_tree import parse_documents, read_documents
from proreus.model.errors import InputError, UsageError

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_VALUES = 1_000_000
"""Values of one file, aliases written out: a few lines of aliases can stand for more than there is memory."""
_LONGEST_INPUT = 64 << 20
_RESOLVER = Resolver()


@dataclass(frozen=True)
class Document:
    """An object that a file holds."""

    value: dict[str, Any]
    file: Path
    line: int | None

    def fail(self, message: str, field: str | None = None) -> InputError:
        """The error for something wrong with it."""
        return InputError(message, file=self.file, line=self.line, field=field)


def read_all(names: Sequence[str]) -> list[Document]:
    """The objects of files, of all files in folders, and of stdin (-), in the order in which they stand."""
    if not names:
        raise UsageError("name what to read: -f FILE, -f DIR, or -f - for stdin")
    documents = [document for name in names for document in _read(name)]
    if not documents:
        raise InputError("no object found", file=names[0])
    return documents


def _read(name: str) -> Iterator[Document]:
    if name == "-":
        text = sys.stdin.read(_LONGEST_INPUT + 1)
        if len(text) > _LONGEST_INPUT:
            raise InputError(f"more than {_LONGEST_INPUT >> 20} MiB", file="-")
        for entry in parse_documents(text, Path("-")):
            yield from _objects(entry)
        return
    if name.startswith(("http://", "https://")):
        raise UsageError(f"only files are read: curl -fsSL {name} | proreus apply -f - (or -f its copy)")
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise InputError(f"the folder has no {', '.join(_SUFFIXES)} file", file=path)
    else:
        files = [path]
    for file in files:
        for entry in read_documents(file):
            yield from _objects(entry)


def _objects(entry: Entry) -> Iterator[Document]:
    """The object itself, or what a List holds."""
    if entry.require("kind").text().endswith("List") and entry.find("items") is not None:
        for item in entry.children("items"):
            yield from _objects(item)
        return
    value = _Plain(entry.file).of(entry.tree)
    if not isinstance(value, dict):
        raise entry.fail("an object is needed here")
    yield Document(value, entry.file, entry.tree.line)


class _Plain:
    """Turns a tree into plain values, and counts them."""

    def __init__(self, file: Path) -> None:
        self._file, self._left = file, _MOST_VALUES

    def of(self, tree: Tree) -> Any:
        """The value, as YAML's usual rules read it; dates stay texts."""
        self._left -= 1
        if self._left < 0:
            raise InputError(f"more than {_MOST_VALUES:,} values", file=self._file, line=tree.line)
        match tree:
            case Scalar():
                return self._scalar(tree)
            case TreeSequence():
                return [self.of(item) for item in tree.items]
            case Mapping():
                return {key: self.of(value) for key, value in tree.entries.items()}

    def _scalar(self, scalar: Scalar) -> Any:
        if not scalar.plain:
            return scalar.text
        resolve: Callable[..., str] = _RESOLVER.resolve
        tag = resolve(yaml.ScalarNode, scalar.text, (True, False)).rpartition(":")[2]
        if tag not in ("null", "bool", "int", "float"):
            return scalar.text
        try:
            return yaml.safe_load(scalar.text)
        except (yaml.YAMLError, ValueError) as error:
            raise InputError(f"{scalar.text!r}: {error}", file=self._file, line=scalar.line) from None


def as_yaml(value: Any) -> str:
    """Objects as YAML, in the order in which they came."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as such, and writes out what stands twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
