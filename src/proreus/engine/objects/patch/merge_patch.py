"""JSON merge patch, RFC 7386: an object laid over another; null takes a field away."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.errors import BadRequest


def merge_patched(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch laid over it."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a merge patch is an object")
    return _merged(obj, patch)


def _merged(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result
