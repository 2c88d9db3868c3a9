"""Objects over HTTP: read, listed, watched, created, replaced, patched, deleted. Generic over their kinds."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from proreus.engine.api.k8s.field_validation import field_warnings
from proreus.engine.api.k8s.list_response import ListSheet, chosen_of, encoded
from proreus.engine.api.k8s.negotiation import Form, form_of
from proreus.engine.api.k8s.pagination import Span
from proreus.engine.api.k8s.patch import PATCH_TYPES, Check, patched
from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.k8s.warnings import effect_warnings, touches_spec
from proreus.engine.api.k8s.watch import WatchAsked, Watches
from proreus.engine.api.server.reply import Answer, Header, Reply, Stream
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import success
from proreus.engine.objects.errors import BadRequest, NotFound, TooLargeVersion
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.lifecycle import check_may_go
from proreus.engine.objects.offload import offload
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.selectors import Selection, selection_asked
from proreus.engine.watch.subscription import WatchSelector

_SMALL_LIST = 64 * 1024
"""Bytes of a list that is sent as it is."""


class ResourceHandlers:
    """The verbs of Kubernetes' API."""

    def __init__(
        self,
        registry: Registry,
        watches: Watches,
        check: Check = lambda _kind, _obj: None,
        *,
        simulated: bool = False,
    ) -> None:
        """check: what is written is shown to it first; it raises where that is not to be.

        simulated: whether the nodes of this process are.
        """
        self._registry, self._watches, self._check = registry, watches, check
        self._simulated, self._portions = simulated, watches.portions

    async def get(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """One object."""
        form = _form(asked)
        obj = await self._registry.get(target.kind, target.namespace, target.name)
        return Reply.of(form.one(target.kind, obj))

    async def list(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """All objects, or those that were selected; in portions where that is asked for."""
        form = _form(asked)
        chosen = await _selection(target.kind, asked)
        limit = asked.number("limit") or 0
        after, revision = _read_continue(asked.query.get("continue", ""), target.kind)
        version = asked.number("resourceVersion") or 0
        if not after and asked.query.get("resourceVersionMatch") == "Exact":
            revision = version
        sheet = ListSheet(form, Span(target.kind, target.namespace), chosen, limit)
        async with self._portions.turn(asked.client):
            try:
                listed = await self._portions.read(sheet.span, after, revision, limit)
            except TooLargeVersion:
                if after:  # no list was ever told of that revision
                    raise _bad_continue() from None
                raise
            if not after and version > listed.revision:
                raise TooLargeVersion(version, listed.revision)
            first = await sheet.begin(listed)
        if sheet.ends(listed) and len(first) <= _SMALL_LIST:
            return Reply(first + sheet.end(listed))
        return Stream(sheet.pieces(self._portions, asked.client, first, listed), may_refuse=True)

    async def watch(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """Changes as they come; `name` narrows it to one object."""
        chosen = await _selection(target.kind, asked)
        version = asked.number("resourceVersion")
        initial = asked.flag("sendInitialEvents")
        if initial and asked.query.get("resourceVersionMatch") != "NotOlderThan":
            raise BadRequest("sendInitialEvents is set: resourceVersionMatch must be NotOlderThan")
        matches = None if chosen.everything else chosen.matches
        if target.name:
            matches = _named(target.name, chosen)
        watch = WatchAsked(
            WatchSelector(target.kind, target.namespace, matches),
            _form(asked),
            None if initial or not version else version,
            self._watches.seconds(asked.number("timeoutSeconds")),
            asked.flag("allowWatchBookmarks"),
            initial,
            asked.client,
        )
        self._watches.check_room(asked.client)
        await self._watches.check_reached(target.kind, version or 0)
        return Stream(self._watches.lines(watch))

    async def create(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """A new object."""
        form = _form(asked)
        obj = _checked(await asked.document(), target)
        headers = await _warnings(target.kind, obj, asked)
        self._check(target.kind, obj)
        created = await self._registry.create(target.kind, obj, dry_run=asked.dry_run)
        return Reply.of(form.one(target.kind, created), 201, headers + self._effects(target, created))

    async def replace(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """Another state of an object, or of its status."""
        form = _form(asked)
        obj = _checked(await asked.document(), target)
        headers = await _warnings(target.kind, obj, asked)
        self._check(target.kind, obj)
        replaced = await self._registry.replace(
            target.kind,
            obj,
            subresource=target.subresource,
            dry_run=asked.dry_run,
            manager=asked.manager,
        )
        return Reply.of(form.one(target.kind, replaced), 200, headers + self._effects(target, replaced))

    async def patch(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """A change of an object, or of its status."""
        form = _form(asked)
        patch = await asked.document(*PATCH_TYPES)
        if asked.content_type != "application/json-patch+json" and not isinstance(patch, dict):
            raise BadRequest("error decoding patch: it is not an object")
        state, created, headers = await patched(self._registry, target, asked, patch, self._check)
        if touches_spec(patch):
            headers += self._effects(target, state)
        return Reply.of(form.one(target.kind, state), 201 if created else 200, headers)

    def _effects(self, target: RequestTarget, state: dict[str, Any]) -> tuple[Header, ...]:
        return () if target.subresource else effect_warnings(target.kind, state, simulated=self._simulated)

    async def delete(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """An object goes, or begins to."""
        options = await deletion_options(asked)
        left = await self._registry.delete(
            target.kind, target.namespace, target.name, dry_run=asked.dry_run, **options
        )
        return _deleted(target.kind, left)

    async def delete_all(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """All that were selected go, or begin to."""
        chosen = await _selection(target.kind, asked)
        options = await deletion_options(asked)
        listed = await self._registry.list(target.kind, target.namespace)
        leaving = await chosen_of(listed.items, chosen)
        for obj in leaving:  # all of them, before the first goes
            check_may_go(target.kind, obj)
        gone = []
        for obj in leaving:
            metadata = obj["metadata"]
            options["uid"] = metadata["uid"]
            try:
                gone.append(
                    await self._registry.delete(
                        target.kind,
                        metadata.get("namespace", ""),
                        metadata["name"],
                        dry_run=asked.dry_run,
                        **options,
                    )
                )
            except NotFound:
                continue  # somebody was faster
        metadata = {"resourceVersion": str(listed.revision)}
        return Reply(await encoded(Form(), target.kind, gone, metadata))


async def _warnings(kind: Kind, obj: dict[str, Any], asked: ApiRequest) -> tuple[Header, ...]:
    validation = asked.query.get("fieldValidation", "")
    return await offload(asked.size, lambda: field_warnings(kind, obj, validation))


def _form(asked: ApiRequest) -> Form:
    return form_of(asked.accept, asked.query.get("includeObject", ""))


async def _selection(kind: Kind, asked: ApiRequest) -> Selection:
    return await selection_asked(
        kind, asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", "")
    )


def _named(name: str, chosen: Selection) -> Any:
    return lambda obj: obj["metadata"]["name"] == name and chosen.matches(obj)


def _checked(obj: Any, target: RequestTarget) -> dict[str, Any]:
    """The body as an object of the target's kind, with the namespace and name of the path."""
    kind = target.kind
    if not isinstance(obj, dict):
        raise BadRequest("the body of the request is not an object")
    if obj.get("apiVersion", kind.api_version) != kind.api_version or obj.get("kind", kind.kind) != kind.kind:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"it says {obj.get('apiVersion')!r:.80}, {obj.get('kind')!r:.80}"
        )
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: it is not an object")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if target.namespace and namespace not in (None, "", target.namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.name and name not in (None, "", target.name):
        raise BadRequest(
            f"the name of the object ({name!r:.80}) does not match the name on the URL ({target.name})"
        )
    settled = {**metadata}
    if target.namespace:
        settled["namespace"] = target.namespace
    if target.name:
        settled["name"] = target.name
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": settled}


async def deletion_options(asked: ApiRequest) -> dict[str, Any]:
    """The terms of a deletion, from its body (DeleteOptions) and its query, as the registry takes them."""
    body = await asked.optional_document()
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise BadRequest("DeleteOptions is not an object")
    grace = body.get("gracePeriodSeconds", asked.number("gracePeriodSeconds"))
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool) or abs(grace) > 2**53):
        raise BadRequest("gracePeriodSeconds is not a whole number")
    conditions = body.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise BadRequest("preconditions is not an object")
    propagation = body.get("propagationPolicy") or asked.query.get("propagationPolicy") or "Background"
    if body.get("orphanDependents") is True or asked.flag("orphanDependents"):
        propagation = "Orphan"
    if propagation not in ("Background", "Foreground", "Orphan"):
        raise BadRequest(f"propagationPolicy: {propagation!r:.80} is none of Background, Foreground, Orphan")
    return {
        "uid": _text(conditions, "uid"),
        "resource_version": _text(conditions, "resourceVersion"),
        "grace": grace,
        "propagation": propagation,
    }


def _text(of: dict[str, Any], name: str) -> str:
    value = of.get(name) or ""
    if not isinstance(value, str):
        raise BadRequest(f"{name} is not a string")
    return value


def _deleted(kind: Kind, left: dict[str, Any]) -> Reply:
    metadata = left["metadata"]
    if "deletionTimestamp" in metadata and (
        metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or kind.kind == "Pod"
    ):
        return Reply.of(left)
    return Reply.of(success(kind.resource, metadata["name"], uid=metadata.get("uid", "")))


def _read_continue(token: str, kind: Kind) -> tuple[str, int]:
    """The key to go on behind, and the revision to go on at."""
    if not token:
        return "", 0
    try:
        document = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        after, revision = document["start"], document["rv"]
    except (binascii.Error, ValueError, KeyError, TypeError, msgspec.MsgspecError):
        raise _bad_continue() from None
    if not isinstance(after, str) or type(revision) is not int or not 0 < revision < 2**62:
        raise _bad_continue()
    if not after.startswith(kind.prefix) or not after.isprintable():
        raise _bad_continue()
    return after, revision


def _bad_continue() -> BadRequest:
    return BadRequest("continue key is not valid")
