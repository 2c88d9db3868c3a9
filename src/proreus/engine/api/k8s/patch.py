"""Patches: four types of them, each applied to what stands and stored if nobody was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proreus.engine.api.k8s.field_validation import field_warnings, unknown_warnings
from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.server.authorization import Action, check
from proreus.engine.api.server.reply import Header
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.offload import offload
from proreus.engine.objects.patch.patch_type import PatchType
from proreus.engine.objects.patch.patch_type import patched as with_patch
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schema.structure import shaped

APPLY = "application/apply-patch+yaml"
PATCH_TYPES = (*(patch_type.value for patch_type in PatchType), APPLY)


Check = Callable[[Kind, dict[str, Any]], None]
"""Raises where an object is not to be written."""


async def patched(
    registry: Registry, target: RequestTarget, asked: ApiRequest, patch: Any, check_object: Check
) -> tuple[dict[str, Any], bool, tuple[Header, ...]]:
    """The object after the patch, whether it was created by it, and what is to be said beside it."""
    kind, validation = target.kind, asked.query.get("fieldValidation", "")
    if asked.content_type == APPLY:
        return await _applied(registry, target, asked, patch, check_object)
    how = PatchType(asked.content_type)
    headers: tuple[Header, ...] = ()

    def change(standing: dict[str, Any]) -> dict[str, Any]:
        nonlocal headers
        state = with_patch(kind, standing, patch, how)
        _check_same(kind, standing, state)
        headers = field_warnings(kind, state, validation)
        check_object(kind, state)
        return state

    state = await registry.edit(
        kind,
        target.namespace,
        target.name,
        change,
        subresource=target.subresource,
        dry_run=asked.dry_run,
        manager=asked.manager,
        size=asked.size,
    )
    return state, False, headers


async def _applied(
    registry: Registry, target: RequestTarget, asked: ApiRequest, stated: dict[str, Any], check_object: Check
) -> tuple[dict[str, Any], bool, tuple[Header, ...]]:
    """Server-side apply: the object is made where it is not there."""
    kind = target.kind
    if not asked.query.get("fieldManager"):
        raise BadRequest("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: for apply patch")
    if stated.get("apiVersion") != kind.api_version or stated.get("kind") != kind.kind:
        raise BadRequest(f"an apply patch states apiVersion {kind.api_version} and kind {kind.kind}")
    metadata = stated.get("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRequest("metadata is not an object")
    if metadata.get("name", target.name) != target.name:
        raise BadRequest("the name of the object does not match the name on the URL")
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise BadRequest("the namespace of the object does not match the namespace on the URL")
    if metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    validation = asked.query.get("fieldValidation", "")
    meant = await offload(asked.size, lambda: shaped(kind, stated))
    headers = unknown_warnings(kind, meant, validation)
    named = {**metadata, "name": target.name, "namespace": target.namespace}
    check_object(kind, {**stated, "metadata": named})
    created = False

    def before_writing(creating: bool) -> None:
        """The right to patch what is there is none to make what is not."""
        nonlocal created
        created = creating
        if creating:
            check(asked.identity, Action("create", target.resource, target.namespace, target.name))

    state = await registry.apply(
        kind,
        target.namespace,
        target.name,
        meant,
        manager=asked.manager,
        force=asked.flag("force"),
        subresource=target.subresource,
        dry_run=asked.dry_run,
        before_writing=before_writing,
    )
    return state, created, headers


def _check_same(kind: Kind, standing: dict[str, Any], state: Any) -> None:
    """A patch changes no object into another one."""
    if not isinstance(state, dict) or not isinstance(state.get("metadata"), dict):
        raise BadRequest("the patch leaves no object with metadata")
    if state.get("apiVersion") != kind.api_version or state.get("kind") != kind.kind:
        raise BadRequest("apiVersion and kind cannot be patched")
    for name in ("name", "namespace"):
        if state["metadata"].get(name) != standing["metadata"].get(name):
            raise BadRequest(f"metadata.{name} cannot be patched")
