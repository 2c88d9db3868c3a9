"""JSON files as trees, so that a value of the wrong kind is an InputError with file and field.

Called by the readers of snapshots, layouts of nodes and pods, and measured throughputs. The parser of the
standard library tells lines only where a file is not JSON at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proreus.data.cursor import Entry, Mapping, Scalar, Sequence, Tree
from proreus.data.text_file import read_text
from proreus.model.errors import InputError


def read_json(path: Path) -> Entry:
    """The content of a JSON file, to move through."""
    return entry_of(load_json(path), path)


def entry_of(content: Any, file: Path) -> Entry:
    """What `json` made of a file, to move through."""
    return Entry(file, "", _tree(content))


def load_json(path: Path) -> Any:
    """The content of a JSON file as plain Python values."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", file=path, line=error.lineno) from None
    except RecursionError:
        raise InputError("not valid JSON: nested too deep", file=path) from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"not valid JSON: {error}", file=path) from None


def _tree(content: Any) -> Tree:
    match content:
        case dict():
            return Mapping({name: _tree(value) for name, value in content.items()}, None)
        case list():
            return Sequence(tuple(map(_tree, content)), None)
        case str():
            return Scalar(content, False, None, "a text")
        case None:
            return Scalar("null", True, None)
        case bool():
            return Scalar("true" if content else "false", True, None, "true or false")
        case _:
            return Scalar(repr(content), True, None, "a number")
