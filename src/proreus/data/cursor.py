"""A place in a YAML or JSON file: a cursor over its tree whose errors name file, line and field.

`yaml_tree` and `json_tree` build the trees; readers of either format move through them with `Entry` alone. A
value of YAML is what the reader takes it for, a value of JSON is of one kind only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from proreus.data.table import parse_number, shown
from proreus.model.errors import InputError
from proreus.model.resources import parse_quantity

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "false": False}
Kind: TypeAlias = Literal["a text", "a number", "true or false"]


@dataclass(frozen=True)
class Scalar:
    """A single value, as written."""

    text: str
    plain: bool
    """Without quotes."""
    line: int | None
    kind: Kind | None = None
    """What it is, where the format says so; None: whatever it reads as."""


@dataclass(frozen=True)
class Sequence:
    items: tuple[Tree, ...]
    line: int | None


@dataclass(frozen=True)
class Mapping:
    """Keys with values, in the order of the file."""

    entries: dict[str, Tree]
    line: int | None


Tree: TypeAlias = Scalar | Sequence | Mapping


def is_null(tree: Tree) -> bool:
    """Whether this stands for no value."""
    return isinstance(tree, Scalar) and tree.plain and tree.text in _NULLS


@dataclass(frozen=True)
class Entry:
    """A value, and the path of keys that leads to it."""

    file: Path
    field: str
    """Such as `cluster_list[0].host_info[3]`; "" at the top."""
    tree: Tree

    def fail(self, message: str) -> InputError:
        """The error for something wrong with this value."""
        return InputError(message, file=self.file, line=self.tree.line, field=self.field or None)

    def get(self, key: str) -> Entry | None:
        """The value under `key`, or None where it is absent or null."""
        value = self._mapping().get(key)
        return None if value is None or is_null(value) else Entry(self.file, self._path(key), value)

    def find(self, path: str) -> Entry | None:
        """The value under the keys of a dotted path, or None where one of them is absent; "": this one."""
        entry: Entry | None = self
        for key in path.split(".") if path else ():
            if entry is None:
                return None
            entry = entry.get(key)
        return entry

    def require(self, path: str) -> Entry:
        """The value under a dotted path; an error where it is absent."""
        entry = self.find(path)
        if entry is None:
            line = self.tree.line
            raise InputError("the field is missing", file=self.file, line=line, field=self._path(path))
        return entry

    def children(self, path: str = "") -> tuple[Entry, ...]:
        """The elements of the list under a dotted path; none where it is absent."""
        entry = self.find(path)
        if entry is None:
            return ()
        if not isinstance(entry.tree, Sequence):
            raise entry.fail("a list is needed here")
        return tuple(
            Entry(self.file, f"{entry.field}[{position}]", item)
            for position, item in enumerate(entry.tree.items)
        )

    def entries(self, path: str = "") -> tuple[tuple[str, Entry], ...]:
        """The keys and values of the mapping under a dotted path, nulls left out; none where it is absent."""
        entry = self.find(path)
        if entry is None:
            return ()
        return tuple(
            (key, Entry(self.file, entry._path(key), value))
            for key, value in entry._mapping().items()
            if not is_null(value)
        )

    def texts(self, path: str) -> tuple[tuple[str, str], ...]:
        """The mapping of strings under a dotted path (labels, annotations), sorted by key."""
        return tuple(sorted((key, value.text()) for key, value in self.entries(path)))

    def unquoted(self) -> Entry:
        """The same, to be read as whatever it can be: annotations are texts also where they mean numbers."""
        if not isinstance(self.tree, Scalar):
            return self
        return Entry(self.file, self.field, Scalar(self.tree.text, self.tree.plain, self.tree.line))

    def is_text(self) -> bool:
        """Whether the value can be read as a string."""
        return isinstance(self.tree, Scalar) and self.tree.kind in (None, "a text")

    def text(self) -> str:
        """The value as a string, as written."""
        return self._written("a text")

    def text_at(self, path: str, default: str = "") -> str:
        """The string under a dotted path, or `default` where it is absent."""
        entry = self.find(path)
        return default if entry is None else entry.text()

    def truth(self) -> bool:
        """true or false."""
        text = self._written("true or false")
        if text not in _TRUTH:
            raise self.fail(f"{self._quoted()} is neither true nor false")
        return _TRUTH[text]

    def truth_at(self, path: str, *, default: bool = False) -> bool:
        """The boolean under a dotted path, or `default` where it is absent."""
        entry = self.find(path)
        return default if entry is None else entry.truth()

    def number(self, *, minimum: float = 0.0) -> float:
        """A finite number of at least `minimum`."""
        try:
            return parse_number(self._written("a number"), minimum=minimum, wording=self._quoted())
        except ValueError as error:
            raise self.fail(str(error)) from None

    def integer(self, *, minimum: int = 0, maximum: int = 2**31) -> int:
        """A whole number between the bounds (8 and 8.0 alike)."""
        value = self.number(minimum=minimum)
        if not value.is_integer():
            raise self.fail(f"{self._quoted()} is not a whole number")
        if value > maximum:
            raise self.fail(f"{self._quoted()} is above {maximum}")
        return int(value)

    def integer_at(self, path: str, default: int, *, minimum: int = 0, maximum: int = 2**31) -> int:
        """The whole number under a dotted path, or `default` where it is absent."""
        entry = self.find(path)
        return default if entry is None else entry.integer(minimum=minimum, maximum=maximum)

    def quantity(self, *, scale: int = 1) -> int:
        """A Kubernetes quantity times `scale`."""
        try:
            return parse_quantity(self._written("a number", "a text"), scale=scale)
        except ValueError as error:
            raise self.fail(str(error)) from None

    def _written(self, *needed: Kind) -> str:
        if not isinstance(self.tree, Scalar):
            raise self.fail("a single value is needed here")
        if self.tree.kind is not None and self.tree.kind not in needed:
            raise self.fail(f"{needed[0]} is needed here")
        return self.tree.text

    def _quoted(self) -> str:
        """The value as an error quotes it; a number that can be nothing else without the quotes."""
        assert isinstance(self.tree, Scalar), "read before"
        quoted = shown(self.tree.text)
        return quoted.strip("'") if self.tree.kind == "a number" else quoted

    def _mapping(self) -> dict[str, Tree]:
        if not isinstance(self.tree, Mapping):
            raise self.fail("a mapping is needed here")
        return self.tree.entries

    def _path(self, key: str) -> str:
        return f"{self.field}.{key}" if self.field else key
