"""Server-side apply: a client states the fields that it cares about, and owns them from then on.

What it states is merged into the object; what it stated before and no longer does goes, unless somebody else
owns it too; where it would change what another owns, it is refused unless it forces it. Owners are kept in
`metadata.managedFields`, from the first apply on: before, the object has one owner, whoever made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proreus.engine.objects.error_messages import told_of
from proreus.engine.objects.errors import Cause, Conflict
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.patch.managed_fields import (
    Leaves,
    Path,
    as_fields,
    atomic,
    elements,
    inner_field,
    is_key,
    leaves,
    paths_of,
    shown,
)
from proreus.engine.objects.schema.fields import Field, Type
from proreus.engine.objects.timestamps import timestamp

_BEFORE, _CLIENT_SIDE = "before-first-apply", "kubectl-client-side-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_Map = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, through what, and when."""

    manager: str
    now: float
    subresource: str = ""
    force: bool = False


@dataclass
class _Owner:
    """One entry of managedFields."""

    entry: _Map
    paths: set[Path]

    def is_of(self, writer: Writer, operation: str) -> bool:
        return (
            self.entry.get("manager") == writer.manager
            and self.entry.get("operation") == operation
            and self.entry.get("subresource", "") == writer.subresource
        )


def applied(kind: Kind, live: _Map | None, stated: _Map, writer: Writer) -> _Map:
    """The object after the apply, its owners noted; `Conflict` names whose fields are in the way."""
    asked = leaves(kind, stated, writer.subresource)
    if live is None:
        owner = _entry(kind, writer, "Apply", set(asked))
        return {**stated, "metadata": {**stated.get("metadata", {}), "managedFields": [owner]}}
    owners = _owners(kind, live)
    mine = next((owner for owner in owners if owner.is_of(writer, "Apply")), None)
    others = [owner for owner in owners if owner is not mine]
    _settle_conflicts(leaves(kind, live, writer.subresource), asked, others, writer)
    merged = _merged(Type(kind.kind), live, _mergeable(stated))
    dropped = (mine.paths if mine else set()) - set(asked)
    if dropped:
        held = {
            path[:length] for owner in others for path in owner.paths for length in range(1, len(path) + 1)
        }
        gone = {path for path in dropped if path not in held and not is_key(path)}
        merged = _without(Type(kind.kind), merged, _tree(gone))
    if mine is None or mine.paths != set(asked):
        mine = _Owner(_entry(kind, writer, "Apply", set(asked)), set(asked))
    return _noted(merged, [mine, *others])


def tracked(kind: Kind, old: _Map, new: _Map, writer: Writer) -> _Map:
    """The new state of an object with owners, after a plain write: what it changed is the writer's now."""
    if new["metadata"]["managedFields"] == [{}]:  # so a client asks to forget who owns what
        metadata = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
        return {**new, "metadata": metadata}
    before, after = leaves(kind, old, writer.subresource), leaves(kind, new, writer.subresource)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = set(before) - set(after)
    if not changed and not gone:
        return new
    owners = _owners(kind, new)
    for owner in owners:
        if owner.entry.get("subresource", "") == writer.subresource:
            owner.paths -= changed | gone
    mine = next((owner_entry for owner_entry in owners if owner_entry.is_of(writer, "Update")), None)
    paths = changed | (mine.paths if mine else set())
    rest = [owner_entry for owner_entry in owners if owner_entry is not mine]
    if not changed:
        return _noted(new, owners)
    return _noted(new, [*rest, _Owner(_entry(kind, writer, "Update", paths), paths)])


def _owners(kind: Kind, obj: _Map) -> list[_Owner]:
    entries = obj["metadata"].get("managedFields")
    if entries:
        return [_Owner(entry, paths_of(entry.get("fieldsV1", {}))) for entry in entries]
    client_side = _LAST_APPLIED in obj["metadata"].get("annotations", {})
    paths = set(leaves(kind, obj))
    entry = {
        "manager": _CLIENT_SIDE if client_side else _BEFORE,
        "operation": "Update",
        "apiVersion": kind.api_version,
        "time": obj["metadata"]["creationTimestamp"],
        "fieldsType": "FieldsV1",
    }
    return [_Owner(entry, paths)]


def _settle_conflicts(live: Leaves, asked: Leaves, others: list[_Owner], writer: Writer) -> None:
    """What the writer would change of others' is taken from them, or is why it is refused."""
    changed = {path for path, value in asked.items() if path in live and live[path] != value}
    causes = []
    for owner in others:
        contested = owner.paths & changed
        if writer.force:
            owner.paths -= contested
            continue
        whose = f'conflict with "{owner.entry.get("manager", "")}"'
        if owner.entry.get("subresource"):
            whose += f' with subresource "{owner.entry["subresource"]}"'
        whose += f" using {owner.entry.get('apiVersion', '')}"
        causes += [Cause(shown(path), whose, "FieldManagerConflict") for path in sorted(contested)]
    if causes:
        named = told_of(tuple(causes))
        message = "; ".join(f"{cause.message}: {cause.field}" for cause in named)
        word = "conflict" if len(causes) == 1 else "conflicts"
        raise Conflict(f"Apply failed with {len(causes)} {word}: {message}", causes=named)


def _entry(kind: Kind, writer: Writer, operation: str, paths: set[Path]) -> _Map:
    entry = {
        "manager": writer.manager,
        "operation": operation,
        "apiVersion": kind.api_version,
        "time": timestamp(writer.now),
        "fieldsType": "FieldsV1",
        "fieldsV1": as_fields(paths),
    }
    return {**entry, "subresource": writer.subresource} if writer.subresource else entry


def _noted(obj: _Map, owners: list[_Owner]) -> _Map:
    entries = [{**owner.entry, "fieldsV1": as_fields(owner.paths)} for owner in owners if owner.paths]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def _mergeable(stated: _Map) -> _Map:
    """What is stated, but for the owners: they are noted here."""
    metadata = {key: value for key, value in stated.get("metadata", {}).items() if key != "managedFields"}
    return {**stated, "metadata": metadata}


def _merged(type_: Type, live: _Map, stated: _Map) -> _Map:
    result = dict(live)
    for key, value in stated.items():
        field, present = inner_field(type_, key), result.get(key)
        if present is None or type(present) is not type(value) or atomic(field, value):
            result[key] = value
        elif isinstance(value, dict):
            result[key] = _merged(field.type, present, value)
        else:
            result[key] = _merged_list(field, present, value)
    return result


def _merged_list(field: Field, live: list[Any], stated: list[Any]) -> list[Any]:
    """Those that stand, in their places, and what is new behind them."""
    result = dict(elements(field, live))
    for step, element in elements(field, stated):
        if field.list == "map" and step in result:
            result[step] = _merged(field.type.of or field.type, result[step], element)
        else:
            result[step] = element
    return list(result.values())


_Tree = dict[str, Any]
"""Paths by their steps; None where one ends, and all goes that stands there."""


def _tree(paths: set[Path]) -> _Tree:
    tree: _Tree = {}
    for path in sorted(paths):  # an element before its fields
        here = tree
        for step in path[:-1]:
            inside = here.setdefault(step, {})
            if inside is None:
                break
            here = inside
        else:
            here[path[-1]] = None
    return tree


def _without(type_: Type, obj: _Map, gone: _Tree) -> _Map:
    """The object without what stands at the paths; shares the rest."""
    result = dict(obj)
    for step, inside in gone.items():
        key = step.removeprefix("f:")
        if key not in obj:
            continue
        field, value = inner_field(type_, key), obj[key]
        inner: Any = None
        if inside and isinstance(value, list):
            inner = _without_elements(field, value, inside)
        elif inside and isinstance(value, dict):
            inner = _without(field.type, value, inside)
        if inner:
            result[key] = inner
        else:
            del result[key]
    return result


def _without_elements(field: Field, value: list[Any], gone: _Tree) -> list[Any]:
    kept = {}
    for step, element in elements(field, value):
        inside = gone.get(step, {})
        if inside is not None:
            kept[step] = _without(field.type.of or field.type, element, inside) if inside else element
    return list(kept.values())
