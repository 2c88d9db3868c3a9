"""Which fields of an object there are, as paths that can be owned: the notation of `managedFields`.

A path is a tuple of steps: "f:replicas" a field, 'k:{"name":"web"}' an element of a list with keys, 'v:"x"'
an element of a set. What server-side apply owns as a whole is one path: scalars, atomic lists and maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.schema.fields import Field, Type, definitions

Path = tuple[str, ...]
Leaves = dict[Path, Any]
ELEMENT = object()
"""The value at the path of an element itself, whose fields have their own."""

_KEY_DEFAULTS = {"protocol": "TCP"}
_SYSTEM = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    }
)


def leaves(kind: Kind, obj: Mapping[str, Any], subresource: str = "") -> Leaves:
    """Every path that a writer through that subresource can own, with what stands there."""
    leaves: Leaves = {}
    fields = definitions()[kind.kind].fields
    for key, value in obj.items():
        if key in ("apiVersion", "kind") or key not in fields:
            continue
        if kind.status and (key == "status") is not (subresource == "status") and key != "metadata":
            continue
        if key == "metadata":
            if subresource == "status":
                continue
            value = {name: inner for name, inner in value.items() if name not in _SYSTEM}
        if value != {}:
            _collect(fields[key], value, (f"f:{key}",), leaves)
    return leaves


def _collect(field: Field, value: Any, path: Path, leaves: Leaves) -> None:
    if whole(field, value):
        leaves[path] = value
        return
    if isinstance(value, dict):
        for key, element in value.items():
            _collect(inner_field(field.type, key), element, (*path, f"f:{key}"), leaves)
        return
    for step, element in elements(field, value):
        if field.list == "set":
            leaves[(*path, step)] = element
            continue
        if (*path, step) in leaves:
            raise BadRequest(f"duplicate entries for key {step[2:]} in {shown(path)}")
        leaves[(*path, step)] = ELEMENT
        for key, inner in element.items():
            _collect(inner_field(field.type.of or field.type, key), inner, (*path, step, f"f:{key}"), leaves)


def whole(field: Field, value: Any) -> bool:
    """Whether it is owned as one: a scalar, something empty, or what the table calls atomic."""
    return not value or atomic(field, value)


def atomic(field: Field, value: Any) -> bool:
    """Whether it is replaced as one: a scalar, or what the table calls atomic."""
    if field.map == "atomic":
        return True
    if isinstance(value, dict):
        definition = definitions().get(field.type.definition) if field.type.definition else None
        return field.type.word == "any" or (definition is not None and definition.atomic)
    return not isinstance(value, list) or field.list not in ("map", "set")


def elements(field: Field, value: list[Any]) -> Iterator[tuple[str, Any]]:
    """The elements of a list with keys, or of a set, each with its step."""
    for place, element in enumerate(value):
        if field.list == "set":
            yield "v:" + msgspec.json.encode(element).decode(), element
            continue
        keys = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in field.keys}
        missing = [key for key, stated in keys.items() if stated is None]
        if missing and len(missing) == len(keys):
            raise BadRequest(
                f".{field.name}: element {place}: associative list with keys has an element that omits key "
                f'field "{missing[0]}"'
            )
        stated = {key: keys[key] for key in sorted(keys) if keys[key] is not None}
        yield "k:" + msgspec.json.encode(stated).decode(), element


def is_key(path: Path) -> bool:
    """Whether it is a field by which its element is known: it goes with the element only."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in msgspec.json.decode(path[-2][2:])


def inner_field(type_: Type, key: str) -> Field:
    """What is known of a key of a map or a structure."""
    if type_.word == "{}" and type_.of is not None:
        return Field(key, type_.of)
    definition = definitions().get(type_.definition) if type_.definition else None
    field = definition.fields.get(key) if definition else None
    return field if field is not None else Field(key, Type("any"))


def shown(path: Path) -> str:
    """As a conflict names it: `.spec.containers[name="web"].image`."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = msgspec.json.decode(step[2:])
            text += (
                "["
                + ",".join(
                    f"{key}={msgspec.json.encode(key_value).decode()}" for key, key_value in keys.items()
                )
                + "]"
            )
        else:
            text += f"[={step[2:]}]"
    return text


def as_fields(paths: set[Path]) -> dict[str, Any]:
    """The paths as `fieldsV1` writes them."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        here = tree
        for step in path:
            here = here.setdefault(step, {})
        if path[-1].startswith("k:"):
            here["."] = {}
    return tree


def paths_of(tree: Any) -> set[Path]:
    """The paths of a `fieldsV1`. What cannot be read there, which any writer may have left, owns nothing."""
    paths: set[Path] = set()

    def walk(node: Any, path: Path) -> None:
        if not isinstance(node, dict):
            return
        if not node and path:
            paths.add(path)
        for step, inner in node.items():
            if step == ".":
                if path:
                    paths.add(path)
            elif _is_step(step):
                walk(inner, (*path, step))

    walk(tree, ())
    return paths


def _is_step(step: str) -> bool:
    match step[:2]:
        case "f:":
            return True
        case "k:" | "v:":
            try:
                value = msgspec.json.decode(step[2:])
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return False
            return step.startswith("v:") or isinstance(value, dict)
        case _:
            return False
