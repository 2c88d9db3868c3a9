"""JSON patch, RFC 6902: a list of operations on paths, bounded in number, in what they copy and in depth.

The operations are the library's, one after the other; what they may cost is counted before each.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException, resolve_pointer

from proreus.engine.objects.errors import BadRequest, Invalid, TooLarge
from proreus.engine.objects.size_limits import MOST_DEPTH, depth

MOST_OPERATIONS = 10_000
"""As the real API server has it."""
_MOST_COPIED_BYTES = 1_500_000
"""By all `copy` operations together: each can double the object."""


def json_patched(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after the operations.

    `BadRequest` where they make no sense, `Invalid` where they fail, `TooLarge` where they are too many.
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    state: Any = _copy(obj)
    copied = 0
    for operation in _copy(operations):
        _check_path(operation.get("path"))
        if operation.get("op") == "copy":
            encoded = _encoded_source(state, operation)
            copied += len(encoded)
            if copied > _MOST_COPIED_BYTES:
                raise TooLarge(f"the copies of the JSON patch come to more than {_MOST_COPIED_BYTES} bytes")
            # By the standard the same as a copy, which the library would make of objects of Python.
            operation = {"op": "add", "path": operation["path"], "value": msgspec.json.decode(encoded)}
        state = _applied(state, operation)
    if not isinstance(state, dict):
        raise BadRequest("the JSON patch leaves no object")
    if depth(state) > MOST_DEPTH:
        raise _too_deep()
    return state


def _check_path(path: Any) -> None:
    """Deeper than that nothing is reached, whatever the operations before have nested."""
    if not isinstance(path, str):
        raise BadRequest("error decoding patch: `path` is a path that begins with a slash")
    if path.count("/") > MOST_DEPTH:
        raise _too_deep()


def _encoded_source(state: Any, operation: dict[str, Any]) -> bytes:
    source = operation.get("from")
    if not isinstance(source, str):
        raise BadRequest("error decoding patch: a copy needs `from`, a path")
    try:
        return msgspec.json.encode(resolve_pointer(state, source))
    except (JsonPointerException, TypeError) as error:
        raise _failure(error) from None
    except RecursionError:
        raise _too_deep() from None


def _applied(state: Any, operation: dict[str, Any]) -> Any:
    try:
        return jsonpatch.apply_patch(state, [operation], in_place=True)
    except (jsonpatch.JsonPatchConflict, jsonpatch.JsonPatchTestFailed) as error:
        raise _failure(error) from None
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, ValueError, KeyError) as error:
        raise BadRequest(f"error decoding patch: {str(error)[:200]}") from None
    except RecursionError:
        raise _too_deep() from None


def _copy(value: Any) -> Any:
    """Ours to change."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _failure(error: Exception) -> Invalid:
    return Invalid(f"the server rejected our request due to an error in our request: {str(error)[:200]}")


def _too_deep() -> BadRequest:
    return BadRequest(f"the JSON patch nests the object deeper than {MOST_DEPTH}")
