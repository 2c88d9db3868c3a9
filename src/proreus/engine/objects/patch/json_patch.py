"""JSON patch, RFC 6902: a list of operations on paths, bounded in number, in what they copy and in depth."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from proreus.engine.objects.bounds import MOST_DEPTH, depth
from proreus.engine.objects.errors import BadRequest, Invalid, TooLarge

MOST_OPERATIONS = 10_000
"""As the real API server has it."""
_MOST_COPIED_BYTES = 1_500_000
"""By all `copy` operations together: each can double the object."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_Path = list[str]


def json_patched(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after the operations.

    `BadRequest` where they make no sense, `Invalid` where they fail, `TooLarge` where they are too many.
    """
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    try:
        document = _Document(_copy(obj))
        for operation in _copy(operations):
            document.do(operation)
        state = document.root
        too_deep = depth(state) > MOST_DEPTH
    except RecursionError:
        too_deep = True
    if too_deep:
        raise BadRequest(f"the JSON patch nests the object deeper than {MOST_DEPTH}")
    if not isinstance(state, dict):
        raise BadRequest("the JSON patch leaves no object")
    return state


class _Document:
    """What the operations change."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0

    def do(self, operation: dict[str, Any]) -> None:
        """One of them."""
        path = _path(operation, "path")
        match operation.get("op"):
            case "add":
                self._add(path, _value(operation))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, _value(operation))
            case "move":
                source = _path(operation, "from")
                if len(source) < len(path) and path[: len(source)] == source:
                    raise BadRequest("error decoding patch: nothing can be moved into itself")
                moved = self._at(source)
                if source != path:
                    self._remove(source)
                    self._add(path, moved)
            case "copy":
                encoded = msgspec.json.encode(self._at(_path(operation, "from")))
                self._copied += len(encoded)
                if self._copied > _MOST_COPIED_BYTES:
                    raise TooLarge(
                        f"the copies of the JSON patch come to more than {_MOST_COPIED_BYTES} bytes"
                    )
                self._add(path, msgspec.json.decode(encoded))
            case "test":
                if self._at(path) != _value(operation):
                    raise _failure(f"testing value {_shown(path)} failed")
            case other:
                raise BadRequest(f"error decoding patch: unknown operation {other!r:.80}")

    def _add(self, path: _Path, value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, last = self._at(path[:-1]), path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            place = len(parent) if last == "-" else _index(path[-1])
            if place > len(parent):
                raise _failure(f"there is no place {_shown(path)} in the list")
            parent.insert(place, value)
        else:
            raise _failure(f"nothing can be put at {_shown(path)}")

    def _replace(self, path: _Path, value: Any) -> None:
        if not path:
            self.root = value
            return
        parent = self._at(path[:-1])
        self._step(parent, path, len(path) - 1)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            parent[_index(path[-1])] = value

    def _remove(self, path: _Path) -> None:
        if not path:
            raise BadRequest("error decoding patch: the whole object cannot be removed")
        parent = self._at(path[:-1])
        self._step(parent, path, len(path) - 1)
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            del parent[_index(path[-1])]

    def _at(self, path: _Path) -> Any:
        here = self.root
        for number in range(len(path)):
            here = self._step(here, path, number)
        return here

    @staticmethod
    def _step(here: Any, path: _Path, number: int) -> Any:
        """What stands at a step of the path."""
        step = path[number]
        if isinstance(here, dict) and step in here:
            return here[step]
        if isinstance(here, list):
            place = _index(step)
            if place < len(here):
                return here[place]
        raise _failure(f"there is nothing at {_shown(path[: number + 1])}")


def _path(operation: dict[str, Any], name: str) -> _Path:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise BadRequest(f"error decoding patch: `{name}` is a path that begins with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise BadRequest("error decoding patch: the operation has no `value`")
    return operation["value"]


def _index(step: str) -> int:
    if _INDEX.fullmatch(step) is None:
        raise _failure(f"{step!r:.80} is no place in a list")
    return int(step)


def _copy(value: Any) -> Any:
    """Ours to change."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _shown(path: _Path) -> str:
    return ("/" + "/".join(path))[:200]


def _failure(why: str) -> Invalid:
    return Invalid(f"the server rejected our request due to an error in our request: {why}")
