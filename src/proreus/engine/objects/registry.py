"""All objects of the engine, over the store: what the API and every agent read, write and watch.

Writes are intents: planned on what was last seen, committed on the condition that it is still so, and planned
anew where it is not. Many intents share a transaction, so that hundreds of pods are bound by one
write to the disk. Whatever is handed out is shared: read it, never change it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from proreus.engine.objects.admission import Admission
from proreus.engine.objects.binding import Binding, bound
from proreus.engine.objects.ephemeral import EphemeralValues
from proreus.engine.objects.error_messages import not_found
from proreus.engine.objects.errors import AlreadyExists, BadRequest, StatusError
from proreus.engine.objects.eviction import eviction_intents
from proreus.engine.objects.intents import (
    Change,
    Create,
    CreateOrEdit,
    Deletion,
    DeletionTerms,
    Edit,
    Intent,
)
from proreus.engine.objects.kinds import POD, PRIORITY_CLASS, Kind
from proreus.engine.objects.metadata import name_of, namespace_of
from proreus.engine.objects.object_cache import ObjectCache, encode, room_of, with_version
from proreus.engine.objects.offload import LoopPauses, offload
from proreus.engine.objects.patch.patch_type import PatchType, patched
from proreus.engine.objects.patch.server_side_apply import Writer, applied
from proreus.engine.objects.schema.structure import Shaped
from proreus.engine.objects.transactions import (
    Objects,
    Outcome,
    Outcomes,
    settle,
    settle_many,
    settle_together,
)
from proreus.engine.store.protocol import Change as KeyChange
from proreus.engine.store.protocol import Store, Unchanged

__all__ = ["Binding", "Listed", "ObjectEvent", "Outcome", "Outcomes", "PatchType", "Registry"]

OWN_NAME = "proreus"
"""The field manager of writers that state none."""
_NOWHERE = "\x00"
"""No key begins so: to list it costs nothing."""


class ObjectEvent(msgspec.Struct, frozen=True, gc=False):
    """One change, as a watch tells it; a bookmark tells only how far the watch is."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: dict[str, Any]
    """With its resourceVersion; DELETED: the last state, with the revision of the deletion."""
    previous: dict[str, Any] | None
    revision: int
    length: int = 0
    """Bytes of the object as it is stored."""
    room: int = 0
    """Bytes that the objects take in memory, about; 0 unless that was asked for."""
    last: bool = True
    """Whether nothing else was changed by this revision."""


class Listed(msgspec.Struct, frozen=True, gc=False):
    """Objects as they stood at one revision, in the order of their keys."""

    items: list[dict[str, Any]]
    revision: int
    remaining: int
    after: str
    """Go on with this where some remain; "" at the end."""
    size: int = 0
    """Bytes, as they are stored."""


class Registry:
    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        """For those who keep something else there than objects."""
        self._cache = ObjectCache(store)
        self._clock = clock
        self._admission = Admission(self._cache, clock)

    def notes(self, topic: str) -> EphemeralValues:
        """What processes tell each other beside objects."""
        return EphemeralValues(self.store, topic)

    async def prepare(self) -> None:
        """The namespaces and priority classes that every cluster has."""
        for kind, obj in self._admission.built_in():
            try:
                await self.create(kind, obj)
            except AlreadyExists:
                continue

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """The object as it stands now; `NotFound`."""
        standing = await self._cache.get(kind.key(namespace, name))
        if standing is None:
            raise not_found(kind, name)
        return standing.object

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        limit: int = 0,
        after: str = "",
        revision: int = 0,
        most_bytes: int = 0,
    ) -> Listed:
        """The objects of a kind, of all namespaces where none is named; limit 0: all, revision 0: now.

        most_bytes: a limit of bytes, as they are stored, but for the first object; 0: none.
        """
        page = await self._cache.list(
            kind.prefix_in(namespace if kind.namespaced else ""),
            after=after,
            limit=limit,
            revision=revision,
            most_bytes=most_bytes,
        )
        items, pauses = [], LoopPauses()
        for entry in page.entries:
            items.append(self._cache.read(entry).object)
            if pauses.due:
                await pauses.take()
        last = page.entries[-1].key if page.remaining else ""
        size = sum(len(entry.value) for entry in page.entries)
        return Listed(items, page.revision, page.remaining, last, size)

    async def revision(self) -> int:
        """Of the store, now."""
        return (await self._cache.list(_NOWHERE, after="", limit=1, revision=0)).revision

    async def create(self, kind: Kind, obj: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """The object with its defaults, checked and stored; `AlreadyExists`, `Invalid`."""
        intent = await self.creating(kind, obj)
        return await settle(self._cache, intent, dry_run=dry_run)

    async def create_many(self, kind: Kind, objects: Sequence[dict[str, Any]]) -> Outcomes:
        """Each of them created, or why not, by as few transactions as the store allows."""
        outcomes: list[Outcome | None] = [None] * len(objects)
        intents: list[Intent] = []
        for place, obj in enumerate(objects):
            try:
                intents.append(await self.creating(kind, obj))
            except StatusError as refusal:
                outcomes[place] = refusal
        settled = iter(await settle_many(self._cache, intents))
        return [next(settled) if outcome is None else outcome for outcome in outcomes]

    async def replace(
        self,
        kind: Kind,
        obj: dict[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: str = OWN_NAME,
    ) -> dict[str, Any]:
        """This state instead of the one that stands; of a stated resourceVersion only (`Conflict`)."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise BadRequest("metadata.name: a name is required", kind=kind.kind)
        namespace = metadata.get("namespace", "")
        return await self.edit(
            kind,
            namespace,
            metadata["name"],
            lambda _: obj,
            subresource=subresource,
            dry_run=dry_run,
            manager=manager,
            size=len(encode(obj)),
        )

    async def edit(  # noqa: PLR0913
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: str = OWN_NAME,
        size: int = 0,
    ) -> dict[str, Any]:
        """What `change` makes of the object: read, changed, checked, and stored if nobody was faster.

        `change` gets the object read-only, returns what it is to be (None: leave it), and is called again
        after a lost race; in another thread where the object is large, or `size`, the bytes that it brings.
        """
        intent = Edit(kind, namespace, name, change, self._clock(), subresource, manager, size)
        return await settle(self._cache, intent, dry_run=dry_run)

    async def patch(  # noqa: PLR0913
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Any,
        how: PatchType,
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: str = OWN_NAME,
    ) -> dict[str, Any]:
        """The object with the patch on it; a resourceVersion in the patch must be the one that stands."""
        return await self.edit(
            kind,
            namespace,
            name,
            lambda obj: patched(kind, obj, patch, how),
            subresource=subresource,
            dry_run=dry_run,
            manager=manager,
            size=len(encode(patch)),
        )

    async def create_or_edit(
        self, kind: Kind, obj: dict[str, Any], change: Change, fence: Unchanged | None = None
    ) -> dict[str, Any]:
        """What `change` makes of the object of that name, or of `obj` where none stands.

        `obj` has no uid, by which `change` can tell. fence: a condition of the write (`Fenced`).
        """
        intent = await self.creating_or_editing(kind, obj, change)
        (outcome,) = await settle_many(self._cache, [intent], fence)
        if isinstance(outcome, StatusError):
            raise outcome
        return outcome

    async def apply(  # noqa: PLR0913
        self,
        kind: Kind,
        namespace: str,
        name: str,
        stated: Shaped,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        before_writing: Callable[[bool], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Server-side apply: the object with the stated fields, made where it is not there.

        `Conflict` names the fields that others own; with `force` they are the manager's from now on.
        before_writing: told whether the object is made by it; what it raises keeps it from being written.
        """
        named = {**stated.object.get("metadata", {}), "name": name}
        if kind.namespaced:
            named["namespace"] = namespace
        meant, now = {**stated.object, "metadata": named}, self._clock()
        writer = Writer(manager, now, subresource, force)

        def change(live: dict[str, Any]) -> dict[str, Any]:
            creating = "uid" not in live["metadata"]
            before_writing(creating)
            if not creating:
                return applied(kind, live, meant, writer)
            owned = applied(kind, None, meant, writer)["metadata"]["managedFields"]
            return {**live, "metadata": {**live["metadata"], "managedFields": owned}}

        edit = Edit(kind, namespace, name, change, now, subresource, "", len(encode(meant)))
        intent = edit if subresource else await self._or_created(edit, meant)
        return await settle(self._cache, intent, dry_run=dry_run)

    async def delete(  # noqa: PLR0913
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """It goes, or is marked to go: a bound pod for its grace, whatever has finalizers until they are off.

        The state that it was left in is returned.
        """
        terms = DeletionTerms(uid, resource_version, grace, propagation)
        return await settle(
            self._cache, Deletion(kind, namespace, name, terms, self._clock()), dry_run=dry_run
        )

    async def bind(
        self,
        namespace: str,
        name: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The pod goes to that node; `Conflict` where it is bound already, being deleted, or another pod."""
        binding = Binding(namespace, name, node, uid, annotations or {})
        return await settle(self._cache, self.binding(binding))

    async def bind_many(self, bindings: Sequence[Binding]) -> Outcomes:
        """Each of them bound, or why not, by as few transactions as the store allows."""
        return await settle_many(self._cache, [self.binding(binding) for binding in bindings])

    async def evict(
        self, namespace: str, name: str, grace: int | None = None, *, uid: str = "", dry_run: bool = False
    ) -> None:
        """The pod is deleted if its disruption budgets allow it now; else `TooManyRequests`."""
        terms = DeletionTerms(uid=uid, grace=grace)
        intents = await eviction_intents(self, namespace, name, terms, self._clock())
        if dry_run:
            for intent in intents:
                await settle(self._cache, intent, dry_run=True)
        else:
            await settle_together(self._cache, intents)

    async def commit(self, intents: Sequence[Intent]) -> Objects:
        """All of the intents in one transaction, or none: the first refusal is raised."""
        return await settle_together(self._cache, intents)

    async def commit_each(self, intents: Sequence[Intent], fence: Unchanged | None = None) -> Outcomes:
        """Each intent for itself, by as few transactions as the store allows: the states, or why not.

        fence: holds in every transaction, or what is left of the intents is refused as `Fenced`.
        """
        return await settle_many(self._cache, intents, fence)

    async def creating(self, kind: Kind, obj: dict[str, Any]) -> Create:
        """The intent that `create` is made of, for a transaction with others."""
        if kind is PRIORITY_CLASS:
            self._admission.forget_priorities()
        size = len(encode(obj))
        admitted, now = await self._admission.admit(kind, obj, size), self._clock()
        return await offload(size, lambda: Create(kind, admitted, now, size))

    async def creating_or_editing(
        self, kind: Kind, obj: dict[str, Any], change: Change, *, absent: bool = False
    ) -> CreateOrEdit:
        """The intent that `create_or_edit` is made of; absent: most likely nothing stands, so look later."""
        edit = Edit(kind, namespace_of(obj), name_of(obj), change, self._clock(), "", OWN_NAME)
        return await self._or_created(edit, obj, absent=absent)

    async def _or_created(self, edit: Edit, obj: dict[str, Any], *, absent: bool = False) -> CreateOrEdit:
        """Why nothing may be made counts only where nothing stands."""
        if edit.kind is PRIORITY_CLASS:
            self._admission.forget_priorities()
        metadata = {key: value for key, value in obj["metadata"].items() if key != "uid"}
        try:
            begun = await self._admission.place(edit.kind, {**obj, "metadata": metadata})
            return CreateOrEdit(edit, begun, absent=absent)
        except StatusError as refusal:
            return CreateOrEdit(edit, refusal, absent=absent)

    def editing(
        self, kind: Kind, namespace: str, name: str, change: Change, *, subresource: str = ""
    ) -> Edit:
        """The intent that `edit` is made of."""
        return Edit(kind, namespace, name, change, self._clock(), subresource)

    def deleting(self, kind: Kind, namespace: str, name: str, terms: DeletionTerms) -> Deletion:
        """The intent that `delete` is made of."""
        return Deletion(kind, namespace, name, terms, self._clock())

    def binding(self, binding: Binding) -> Edit:
        """The intent that `bind` is made of."""
        now = self._clock()
        return Edit(
            POD, binding.namespace, binding.name, lambda pod: bound(pod, binding, now), now, "binding"
        )

    async def watch(
        self, kind: Kind, namespace: str = "", after: int = 0, *, weighed: bool = False
    ) -> AsyncGenerator[ObjectEvent, None]:
        """Every change after that revision, each once and in order; `Gone` where the history is too short.

        Without a revision it begins with what stands, each as ADDED, and a bookmark behind them.
        weighed: with the room that objects take in memory, which has to be found out.
        """
        prefix = kind.prefix_in(namespace if kind.namespaced else "")
        if not after:
            listed = await self.list(kind, namespace)
            for obj in listed.items:
                yield ObjectEvent("ADDED", obj, None, int(obj["metadata"]["resourceVersion"]))
            after = listed.revision
            yield _bookmark(kind, after)
        batches = self._cache.watch(prefix, after)
        try:
            async for batch in batches:
                for change, following in zip_longest(batch.changes, batch.changes[1:]):
                    last = following is None or following.revision != change.revision
                    event = self._event(change, last=last, weighed=weighed)
                    if event is not None:
                        yield event
                if not batch.changes:
                    yield _bookmark(kind, batch.revision)
        finally:
            await batches.aclose()

    def _event(self, change: KeyChange, *, last: bool, weighed: bool) -> ObjectEvent | None:
        """A change of a key as one of an object."""
        entry, previous = change.entry, change.previous
        before = None if previous is None else self._cache.read(previous).object
        # The state before is the one that the last change brought, and mostly the same object: it counts once
        if entry is not None:
            obj = self._cache.read(entry).object
            kind: Literal["ADDED", "MODIFIED"] = "ADDED" if before is None else "MODIFIED"
            room = room_of(entry.value) if weighed else 0
            return ObjectEvent(kind, obj, before, change.revision, len(entry.value), room, last)
        if before is None or previous is None:
            return None
        self._cache.gone(change.key, change.revision)
        gone = with_version(before, change.revision)
        room = room_of(previous.value) if weighed else 0
        return ObjectEvent("DELETED", gone, before, change.revision, len(previous.value), room, last)


def _bookmark(kind: Kind, revision: int) -> ObjectEvent:
    obj = {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(revision)},
    }
    return ObjectEvent("BOOKMARK", obj, None, revision)
