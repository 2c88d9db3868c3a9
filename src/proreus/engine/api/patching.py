"""Patches: four types of them, each applied to what stands and stored if nobody was faster."""

from __future__ import annotations

from typing import Any

from proreus.engine.api.asking import Asked
from proreus.engine.api.paths import Target
from proreus.engine.api.replying import Header
from proreus.engine.api.unknown import field_warnings
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.patch.json_patch import json_patched
from proreus.engine.objects.patch.merge import merge_patched
from proreus.engine.objects.patch.strategic import strategic_patched
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.wants import check_preconditions

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


async def patched(
    registry: Registry, target: Target, asked: Asked, patch: Any
) -> tuple[dict[str, Any], bool, tuple[Header, ...]]:
    """The object after the patch, whether it was created by it, and what is to be said beside it."""
    kind, validation = target.kind, asked.query.get("fieldValidation", "")
    if asked.content_type == APPLY:
        return await _applied(registry, target, asked, patch)
    headers: tuple[Header, ...] = ()

    def change(standing: dict[str, Any]) -> dict[str, Any]:
        nonlocal headers
        state = _after(asked.content_type, kind, standing, patch)
        _check_same(kind, standing, state)
        stated = state["metadata"].get("resourceVersion")
        check_preconditions(kind, standing, "", stated if isinstance(stated, str) else "")
        headers = field_warnings(kind, state, validation)
        return state

    state = await registry.edit(
        kind, target.namespace, target.name, change, subresource=target.subresource, dry_run=asked.dry_run
    )
    return state, False, headers


def _after(content_type: str, kind: Kind, standing: dict[str, Any], patch: Any) -> dict[str, Any]:
    match content_type:
        case "application/json-patch+json":
            return json_patched(standing, patch)
        case "application/merge-patch+json":
            return merge_patched(standing, patch)
        case _:
            return strategic_patched(kind, standing, patch)


def _check_same(kind: Kind, standing: dict[str, Any], state: Any) -> None:
    """A patch changes no object into another one."""
    if not isinstance(state, dict) or not isinstance(state.get("metadata"), dict):
        raise BadRequest("the patch leaves no object with metadata")
    if state.get("apiVersion") != kind.api_version or state.get("kind") != kind.kind:
        raise BadRequest("apiVersion and kind cannot be patched")
    for name in ("name", "namespace"):
        if state["metadata"].get(name) != standing["metadata"].get(name):
            raise BadRequest(f"metadata.{name} cannot be patched")


async def _applied(registry, target, asked, patch):
    raise BadRequest("not yet")
