"""JSON files whose faults have a name: every value knows where it stands.

`bytedance` and `deployment` read with it; a value of the wrong kind is an InputError with file and path.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.model.errors import InputError
from proreus.reading.table import LARGEST
from proreus.reading.textfile import read_text


@dataclass(frozen=True)
class Value:
    """One value of a JSON file and where it stands."""

    file: Path
    where: str
    """Such as `cluster_list[0].host_info[3]`; "" at the top."""
    content: Any

    def fail(self, message: str) -> InputError:
        """The error for something wrong with this value."""
        return InputError(message, file=self.file, field=self.where or None)

    def entry(self, name: str) -> Value:
        """A member of an object, which must be there."""
        if not isinstance(self.content, dict):
            raise self.fail("an object is needed here")
        if name not in self.content:
            raise self.fail(f"has no {name!r}")
        return Value(self.file, f"{self.where}.{name}" if self.where else name, self.content[name])

    def has(self, name: str) -> bool:
        """Whether this is an object with such a member."""
        return isinstance(self.content, dict) and name in self.content

    def items(self) -> Iterator[tuple[str, Value]]:
        """The members of an object."""
        if not isinstance(self.content, dict):
            raise self.fail("an object is needed here")
        for name in self.content:
            yield name, self.entry(name)

    def elements(self) -> list[Value]:
        """The elements of a list."""
        if not isinstance(self.content, list):
            raise self.fail("a list is needed here")
        return [Value(self.file, f"{self.where}[{i}]", each) for i, each in enumerate(self.content)]

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.content, str) or not self.content:
            raise self.fail("a text is needed here")
        return self.content

    def number(self) -> float:
        """A finite number from 0 on."""
        found = self.content
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.fail("a number is needed here")
        if not math.isfinite(found) or found > LARGEST:
            raise self.fail(f"{found} is too large or not finite")
        if found < 0:
            raise self.fail(f"{found:g} is negative")
        return found

    def whole(self) -> int:
        """A whole number from 0 on (8 and 8.0 alike)."""
        found = self.number()
        if found != int(found):
            raise self.fail(f"{found:g} is not a whole number")
        return int(found)

    def flag(self) -> bool:
        """true or false."""
        if not isinstance(self.content, bool):
            raise self.fail("true or false is needed here")
        return self.content


def read_json(path: Path) -> Value:
    """The content of a JSON file."""
    try:
        return Value(path, "", json.loads(read_text(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", file=path, line=error.lineno) from None
    except RecursionError:
        raise InputError("not valid JSON: nested too deep", file=path) from None
