"""Strategic merge patch: a merge patch that knows which lists are merged by a key, and how.

Lists that the table of fields gives a merge key are merged element by element, those of scalars as sets; all
others are replaced. `$patch` replaces or deletes, `$deleteFromPrimitiveList` takes out, `$setElementOrder`
orders, `$retainKeys` keeps no other key.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.schema.fields import Field, Type, definitions

_PATCH, _RETAIN = "$patch", "$retainKeys"
_TAKE_OUT, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_ANY = Type("any")
_LONGEST_SHOWN = 200


def strategic_patched(kind: Kind, obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch merged into it; `BadRequest` where the patch makes no sense."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a strategic merge patch is an object")
    return _merged_map(Type(kind.kind), obj, patch)


def _merged_map(type_: Type, original: Mapping[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    match patch.get(_PATCH):
        case None | "merge":
            pass
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case other:
            raise BadRequest(f"Unknown patch type: {_shown(other)}")
    result = dict(original)
    if _RETAIN in patch:
        result = _retained(result, patch)
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if key.startswith(_TAKE_OUT):
            _take_out(result, key.removeprefix(_TAKE_OUT), _listed(key, value))
        elif key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = _listed(key, value)
        elif key not in (_PATCH, _RETAIN):
            _lay(result, _field(type_, key), value)
    for key, order in orders.items():
        _check_order(_field(type_, key), patch.get(key), order)
        if isinstance(result.get(key), list):
            before = original.get(key)
            result[key] = _ordered(
                _field(type_, key), result[key], order, before if isinstance(before, list) else []
            )
    return result


def _lay(result: dict[str, Any], field: Field, value: Any) -> None:
    """One key of the patch into the map."""
    present = result.get(field.name)
    if value is None:
        result.pop(field.name, None)
    elif isinstance(value, dict) and isinstance(present, dict):
        result[field.name] = _merged_map(field.type, present, value)
    elif isinstance(value, list) and isinstance(present, list) and field.merges:
        result[field.name] = _merged_list(field, present, value)
    elif isinstance(value, dict) and value.get(_PATCH) == "delete":
        result.pop(field.name, None)
    else:
        result[field.name] = _without_directives(value)


def _merged_list(field: Field, original: list[Any], patch: list[Any]) -> list[Any]:
    if not any(isinstance(entry, dict) for entry in (*original, *patch)):
        together = list({_hashable(value): value for value in (*patch[::-1], *original[::-1])}.values())[::-1]
        return _ordered(field, together, patch, original)
    if not all(isinstance(entry, dict) for entry in (*original, *patch)):
        raise BadRequest(f"the elements of {field.name} are not all of one type")
    element = field.type.of or _ANY
    if any(entry.get(_PATCH) == "replace" for entry in patch):
        return [_without_directives(value) for value in patch if _PATCH not in value]
    for entry in patch:
        if field.merge not in entry:
            raise BadRequest(f"map: {_shown(entry)} does not contain declared merge key: {field.merge}")
        if entry.get(_PATCH) not in (None, "merge", "delete"):
            raise BadRequest(f"Unknown patch type: {_shown(entry[_PATCH])}")
    gone = {_identity(field, entry) for entry in patch if entry.get(_PATCH) == "delete"}
    brought = [entry for entry in patch if entry.get(_PATCH) != "delete"]
    kept = [
        entry for entry in original if _identity(field, entry) not in gone
    ]  # deletions come first, as kubectl's
    result = list(kept)
    places = _places(field, result)
    for entry in brought:
        at = places.setdefault(_identity(field, entry), len(result))
        if at == len(result):
            result.append(_without_directives(entry))
        else:
            result[at] = _merged_map(element, result[at], entry)
    return _ordered(field, result, brought, kept)


def _ordered(field: Field, merged: list[Any], order: list[Any], server_order: list[Any]) -> list[Any]:
    """What the order names in its order; the others keep their place among those that stood here before."""
    wanted, standing = _places(field, order), _places(field, server_order)
    known = [(_identity(field, entry), entry) for entry in merged]
    named = sorted((pair for pair in known if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [pair for pair in known if pair[0] not in wanted]
    result: list[Any] = []
    next_named = next_other = 0
    while next_named < len(named) and next_other < len(others):
        other, ordered = others[next_other], named[next_named]
        both = other[0] in standing and ordered[0] in standing
        if both and standing[other[0]] < standing[ordered[0]]:
            result.append(other[1])
            next_other += 1
        else:
            result.append(ordered[1])
            next_named += 1
    return [
        *result,
        *(entry for _, entry in named[next_named:]),
        *(entry for _, entry in others[next_other:]),
    ]


def _check_order(field: Field, patch: Any, order: list[Any]) -> None:
    """What the patch brings must be named by the order, and come in it."""
    brought = [
        entry for entry in patch or () if not (isinstance(entry, dict) and entry.get(_PATCH) == "delete")
    ]
    wanted = iter([_identity(field, entry) for entry in order])
    if not all(
        any(named == asked for named in wanted) for asked in (_identity(field, entry) for entry in brought)
    ):
        raise BadRequest(
            f"The order in patch list:\n{_shown(brought)}\n doesn't match {_ORDER[:-1]} list:\n"
            f"{_shown(order)}\n"
        )


def _identity(field: Field, entry: Any) -> Hashable:
    """By what an element is known among the others."""
    return _hashable(entry.get(field.merge) if isinstance(entry, dict) else entry)


def _hashable(value: Any) -> Hashable:
    """Equal for equal values; a patch may bring a list or an object where a name belongs."""
    return msgspec.json.encode(value, order="sorted") if isinstance(value, dict | list) else value


def _places(field: Field, elements: list[Any]) -> dict[Hashable, int]:
    """Where each stands first."""
    places: dict[Hashable, int] = {}
    for place, element in enumerate(elements):
        places.setdefault(_identity(field, element), place)
    return places


def _shown(value: Any) -> str:
    """As much of it as says which one is meant."""
    text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _take_out(result: dict[str, Any], key: str, values: list[Any]) -> None:
    if isinstance(result.get(key), list):
        gone = {_hashable(value) for value in values}
        result[key] = [primitive for primitive in result[key] if _hashable(primitive) not in gone]


def _retained(result: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    kept = {_hashable(key) for key in _listed(_RETAIN, patch[_RETAIN])}
    for key in patch:
        if key not in kept and not key.startswith("$") and patch[key] is not None:
            raise BadRequest(f"the field {key!r:.200} of the patch is not among its {_RETAIN}")
    return {key: value for key, value in result.items() if key in kept}


def _listed(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequest(f"{key} takes a list")
    return value


def _field(type_: Type, key: str) -> Field:
    """What is known of a key; in a free map, of its values."""
    if type_.word == "{}" and type_.of is not None:
        return Field(key, type_.of)
    definition = definitions().get(type_.definition) if type_.definition else None
    field = definition.fields.get(key) if definition else None
    return field if field is not None else Field(key, _ANY)


def _without_directives(value: Any) -> Any:
    """What a patch brings where nothing stood: its values, without nulls and orders to the merge."""
    if isinstance(value, dict):
        return {
            key: _without_directives(inner)
            for key, inner in value.items()
            if inner is not None and not key.startswith("$")
        }
    if isinstance(value, list):
        orders = ("delete", "replace")
        kept = [entry for entry in value if not (isinstance(entry, dict) and entry.get(_PATCH) in orders)]
        return [_without_directives(entry) for entry in kept]
    return value
