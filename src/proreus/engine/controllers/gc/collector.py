"""Dependents without an owner, and owners that wait for their dependents, without I/O.

Objects go in as they are seen; out come those to judge, and what each judgement asks for. That an owner is
gone is believed only of the store itself: the shell asks it (`Absent`), since what one watch tells may be
older than what another does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.controllers.instructions import DeleteObject, Instruction, UpdateObject
from proreus.engine.controllers.namespaces.conditions import remaining_content
from proreus.engine.objects.conditions import with_conditions
from proreus.engine.objects.kinds import NAMESPACE, POD, Kind
from proreus.engine.objects.lifecycle import FOREGROUND, ORPHAN
from proreus.engine.objects.metadata import Object, deleting, uid_of, with_metadata, without_finalizer

Reference = Mapping[str, Any]
Absent = Set[str]
"""The uids of owners that the store itself does not have."""


@dataclass
class GarbageGraph:
    _objects: dict[str, tuple[Kind, Object]] = field(default_factory=dict)
    _dependents: dict[str, set[str]] = field(default_factory=dict)
    _to_judge: dict[str, None] = field(default_factory=dict)

    def seen(self, kind: Kind, obj: Object) -> None:
        """It stands so now."""
        uid = uid_of(obj)
        before = self._objects.get(uid)
        self._objects[uid] = (kind, obj)
        owners = {str(ref["uid"]) for ref in _references(obj)}
        old = {str(ref["uid"]) for ref in _references(before[1])} if before is not None else set()
        for owner in old - owners:
            self._unlink(owner, uid)
            self._to_judge[owner] = None
        for owner in owners - old:
            self._dependents.setdefault(owner, set()).add(uid)
        waits = deleting(obj) and any(finalizer in (FOREGROUND, ORPHAN) for finalizer in _finalizers(obj))
        if waits or any(owner not in self._objects for owner in owners) or self._leaving(owners):
            self._to_judge[uid] = None

    def gone(self, obj: Object) -> None:
        """It stands no more: its dependents and its owners are looked at."""
        uid = uid_of(obj)
        known = self._objects.pop(uid, None)
        if known is None:
            return
        for ref in _references(known[1]):
            self._unlink(str(ref["uid"]), uid)
            self._to_judge[str(ref["uid"])] = None
        for dependent in self._dependents.get(uid, ()):
            self._to_judge[dependent] = None

    def again(self, uid: str) -> None:
        """What was asked for has failed: it is looked at once more."""
        self._to_judge[uid] = None

    def take(self) -> list[str]:
        """Those to judge, once each."""
        taken, self._to_judge = list(self._to_judge), {}
        return taken

    def missing(self, uid: str) -> list[Reference]:
        """The owners that it states and that were not seen."""
        known = self._objects.get(uid)
        if known is None:
            return []
        return [ref for ref in _references(known[1]) if str(ref["uid"]) not in self._objects]

    def namespace(self, uid: str) -> str:
        """Where its owners are looked for."""
        return str(self._objects[uid][1]["metadata"].get("namespace") or "")

    def judge(self, uid: str, absent: Absent) -> list[Instruction]:
        """What is to be done about it."""
        known = self._objects.get(uid)
        if known is None:
            return []
        kind, obj = known
        if deleting(obj):
            if ORPHAN in _finalizers(obj):
                return list(self._orphaned(kind, obj))
            if FOREGROUND in _finalizers(obj):
                return list(self._foreground(kind, obj))
            return []
        return list(self._without_owner(kind, obj, absent))

    def _without_owner(self, kind: Kind, obj: Object, absent: Absent) -> Iterator[Instruction]:
        references = _references(obj)
        if not references:
            return
        dangling = [
            ref for ref in references if str(ref["uid"]) not in self._objects and ref["uid"] in absent
        ]
        solid = [ref for ref in references if ref not in dangling]
        waiting = [ref for ref in solid if self._waits_for_dependents(str(ref["uid"]))]
        if not solid:
            yield DeleteObject(kind, obj, propagation="Background")
        elif len(waiting) == len(solid):
            has_own = bool(self._dependents.get(uid_of(obj)))
            yield DeleteObject(kind, obj, propagation="Foreground" if has_own else "Background")
        elif dangling or waiting:
            keep = [ref for ref in solid if ref not in waiting]
            yield UpdateObject(kind, with_metadata(obj, ownerReferences=keep))

    def _foreground(self, kind: Kind, obj: Object) -> Iterator[Instruction]:
        """Dependents first; when none holds it any more it may go."""
        blocking = False
        for uid in sorted(self._dependents.get(uid_of(obj), ())):
            of, dependent = self._objects[uid]
            if self._blocks(dependent, uid_of(obj)) and not self._waits_in_circle(uid, uid_of(obj)):
                blocking = True
            if not deleting(dependent):
                has_own = bool(self._dependents.get(uid))
                others = [ref for ref in _references(dependent) if str(ref["uid"]) != uid_of(obj)]
                if not others:
                    yield DeleteObject(of, dependent, propagation="Foreground" if has_own else "Background")
        if not blocking:
            free = without_finalizer(obj, FOREGROUND)
            if free is not None:
                yield UpdateObject(kind, free)

    def _orphaned(self, kind: Kind, obj: Object) -> Iterator[Instruction]:
        """Dependents are let go; when none states it any more it may go."""
        dependents = sorted(self._dependents.get(uid_of(obj), ()))
        for uid in dependents:
            of, dependent = self._objects[uid]
            keep = [ref for ref in _references(dependent) if str(ref["uid"]) != uid_of(obj)]
            yield UpdateObject(of, with_metadata(dependent, ownerReferences=keep))
        if not dependents:
            free = without_finalizer(obj, ORPHAN)
            if free is not None:
                yield UpdateObject(kind, free)

    def _blocks(self, dependent: Object, owner: str) -> bool:
        return any(ref.get("blockOwnerDeletion") and ref["uid"] == owner for ref in _references(dependent))

    def _waits_in_circle(self, dependent: str, owner: str) -> bool:
        """Whether the dependent waits, through others that wait, for the owner: one has to go first."""
        reached: set[str] = set()
        ahead = [dependent]
        while ahead:
            uid = ahead.pop()
            if uid in reached or not self._waits_for_dependents(uid):
                continue
            if uid == owner:
                return True
            reached.add(uid)
            ahead += self._dependents.get(uid, ())
        return False

    def _waits_for_dependents(self, uid: str) -> bool:
        known = self._objects.get(uid)
        return known is not None and deleting(known[1]) and FOREGROUND in _finalizers(known[1])

    def _leaving(self, owners: set[str]) -> bool:
        return any(self._waits_for_dependents(owner) for owner in owners)

    def _unlink(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.discard(uid)
            if not dependents:
                del self._dependents[owner]


def _references(obj: Object) -> list[Reference]:
    return obj["metadata"].get("ownerReferences") or []


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


# A namespace that is being deleted: everything in it goes first.

_FINALIZER = "kubernetes"


def empty_out(namespace: Object, contents: Mapping[Kind, Sequence[Object]], now: float) -> list[Instruction]:
    """The next step: pods go first, then whatever else stands in it; when nothing does, it may go itself.

    Its conditions say what is left, and whose finalizers keep it.
    """
    if not deleting(namespace):
        return []
    if any(contents.values()):
        due = {POD: contents[POD]} if contents.get(POD) else contents
        told = (namespace.get("status") or {}).get("conditions") or []
        conditions = with_conditions(told, remaining_content(due), now)
        noted: list[Instruction] = []
        if conditions != told:
            status = {**(namespace.get("status") or {}), "conditions": conditions}
            noted.append(UpdateObject(NAMESPACE, {**namespace, "status": status}, "status"))
        going = [DeleteObject(kind, obj) for kind, many in due.items() for obj in many if not deleting(obj)]
        return [*noted, *going]
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    if _FINALIZER not in finalizers:
        return []
    left = [finalizer for finalizer in finalizers if finalizer != _FINALIZER]
    return [
        UpdateObject(NAMESPACE, {**namespace, "spec": {**namespace["spec"], "finalizers": left}}, "finalize")
    ]
