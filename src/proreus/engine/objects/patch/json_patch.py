"""JSON patch, RFC 6902: a list of operations on paths."""

from __future__ import annotations

from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException, resolve_pointer

from proreus.engine.objects.errors import BadRequest, Invalid

MOST_OPERATIONS = 10_000
_MOST_COPIED_BYTES = 1_500_000
"""By all `copy` operations together: each can double the object."""


def json_patched(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after the operations; `BadRequest` where they make no sense, `Invalid` where they fail."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            f"the allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    state: Any = msgspec.json.decode(msgspec.json.encode(obj))  # ours to change
    copied = 0
    for operation in operations:
        if operation.get("op") == "copy":
            copied += _copied_bytes(state, operation)
            if copied > _MOST_COPIED_BYTES:
                raise BadRequest("the copies of the JSON patch make the object too large")
        state = _applied(state, operation)
    if not isinstance(state, dict):
        raise BadRequest("the JSON patch leaves no object")
    return state


def _copied_bytes(state: Any, operation: dict[str, Any]) -> int:
    source = operation.get("from")
    if not isinstance(source, str):
        raise BadRequest("error decoding patch: a copy needs `from`, a path")
    try:
        return len(msgspec.json.encode(resolve_pointer(state, source)))
    except JsonPointerException as error:
        raise BadRequest(f"error decoding patch: {error}") from error


def _applied(state: Any, operation: dict[str, Any]) -> Any:
    try:
        return jsonpatch.apply_patch(state, [operation], in_place=True)
    except jsonpatch.JsonPatchTestFailed as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from error
    except jsonpatch.JsonPatchConflict as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from error
    except (jsonpatch.InvalidJsonPatch, JsonPointerException, TypeError, ValueError, KeyError) as error:
        raise BadRequest(f"error decoding patch: {error}") from error
