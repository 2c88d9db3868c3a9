"""One door to all ways of patching, by the content type that a client states."""

from __future__ import annotations

from enum import Enum
from typing import Any, assert_never

from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.patch.json_patch import json_patched
from proreus.engine.objects.patch.merge_patch import merge_patched
from proreus.engine.objects.patch.strategic_merge import strategic_patched


class PatchType(Enum):
    """How a patch is to be read: its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


def patched(kind: Kind, obj: dict[str, Any], patch: Any, how: PatchType) -> dict[str, Any]:
    """The object with the patch on it; `BadRequest` where it makes no sense. Changes nothing in it."""
    match how:
        case PatchType.JSON:
            return json_patched(obj, patch)
        case PatchType.MERGE:
            return merge_patched(obj, patch)
        case PatchType.STRATEGIC:
            return strategic_patched(kind, obj, patch)
        case _:
            assert_never(how)
