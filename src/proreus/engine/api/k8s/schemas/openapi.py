"""OpenAPI documents of the objects, version 2 and 3, as kubectl reads them for explain, validation and apply.

Both are made of the same schemas. Patches are not said to take strategic merges: kubectl then makes them from
the types that it was built with, which know more fields than are told of here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from proreus.engine.api.k8s.schemas.descriptions import about_definition, about_field
from proreus.engine.objects.kinds import KINDS, Kind
from proreus.engine.objects.schema.fields import Definition, Field, Type, definitions

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PLAIN: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "type": "string",
        "description": "An amount: 500m, 1.5, 2Gi.",
    },
    f"{_META}.Time": {
        "type": "string",
        "format": "date-time",
        "description": "A moment, as RFC 3339 has it.",
    },
    f"{_META}.MicroTime": {
        "type": "string",
        "format": "date-time",
        "description": "A moment, to the microsecond.",
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "type": "string",
        "format": "int-or-string",
        "description": "A number, or a text.",
    },
}
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "any": {"type": "object"},
}
_SPECIAL = dict(zip(("quantity", "time", "microtime", "int-or-string"), _PLAIN, strict=True))
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_GVK = "x-kubernetes-group-version-kind"


def schemas(prefix: str) -> dict[str, Any]:
    """All definitions; `prefix` is where references find them."""
    return {
        **_PLAIN,
        **{_full_name(definition): _schema(definition, prefix) for definition in definitions().values()},
    }


def _schema(definition: Definition, prefix: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    about = about_definition(definition.name)
    if about and definition.name not in _told_by_fields():
        schema["description"] = about
    required = [field.name for field in definition.fields.values() if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {
        name: _property(definition.name, field, prefix) for name, field in definition.fields.items()
    }
    kinds = [kind for kind in KINDS if kind.kind == definition.name]
    if kinds:
        schema[_GVK] = [_gvk(kind) for kind in kinds]
    return schema


@cache
def _told_by_fields() -> frozenset[str]:
    """Definitions of which their fields say the same words: kubectl prints both, one after the other."""
    fields: dict[str, list[tuple[str, str]]] = {}
    for definition in definitions().values():
        for name, field in definition.fields.items():
            fields.setdefault(field.type.definition, []).append((definition.name, name))
    return frozenset(
        name
        for name, places in fields.items()
        if about_definition(name) and any(about_field(*place) == about_definition(name) for place in places)
    )


def _property(definition: str, field: Field, prefix: str) -> dict[str, Any]:
    schema = _type(field.type, prefix)
    about = about_field(definition, field.name)
    if about and "$ref" in schema and prefix.startswith("#/components"):
        schema = {"allOf": [schema]}  # beside a reference nothing else counts in version 3
    if about:
        schema = {**schema, "description": about}
    if field.merges:
        schema["x-kubernetes-patch-strategy"] = field.strategy
    if field.merge:
        schema["x-kubernetes-patch-merge-key"] = field.merge
    return schema


def _type(type_: Type, prefix: str) -> dict[str, Any]:
    if type_.of is not None:
        inner = _type(type_.of, prefix)
        return (
            {"type": "array", "items": inner}
            if type_.word == "[]"
            else {"type": "object", "additionalProperties": inner}
        )
    if type_.definition:
        return {"$ref": prefix + _full_name(definitions()[type_.definition])}
    if type_.word in _SPECIAL:
        return {"$ref": prefix + _SPECIAL[type_.word]}
    return dict(_SCALARS[type_.word])


def _full_name(definition: Definition) -> str:
    return f"{definition.package}.{definition.name}"


def _name_of(kind: Kind) -> str:
    return _full_name(definitions()[kind.kind])


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _base(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _paths(kind: Kind) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each path of a kind, and its methods."""
    base = _base(kind)
    if kind.namespaced:
        yield f"{base}/{kind.plural}", ("get",)
        base = f"{base}/namespaces/{{namespace}}"
    yield f"{base}/{kind.plural}", ("get", "post", "delete")
    path = f"{base}/{kind.plural}/{{name}}"
    yield path, ("get", "put", "patch", "delete")
    if kind.status:
        yield f"{path}/status", ("get", "put", "patch")


def _parameters(path: str, method: str) -> Iterator[tuple[str, str, str]]:
    """Name, place and type."""
    for name in ("namespace", "name"):
        if f"{{{name}}}" in path:
            yield name, "path", "string"
    if method in ("post", "put", "patch"):
        for name in ("dryRun", "fieldManager", "fieldValidation"):
            yield name, "query", "string"
    if method == "patch":
        yield "force", "query", "boolean"
    if method == "get" and not path.endswith(("{name}", "/status")):
        for name in ("labelSelector", "fieldSelector", "continue", "resourceVersion"):
            yield name, "query", "string"
        yield "limit", "query", "integer"
        yield "timeoutSeconds", "query", "integer"
        yield "watch", "query", "boolean"


_ACTIONS = {"post": "post", "put": "put", "patch": "patch", "delete": "delete", "get": "get"}


@cache
def version_2() -> dict[str, Any]:
    """The document of /openapi/v2."""
    paths: dict[str, Any] = {}
    for kind in KINDS:
        reference = {"$ref": f"#/definitions/{_name_of(kind)}"}
        for path, methods in _paths(kind):
            paths[path] = {method: _operation_2(kind, path, method, reference) for method in methods}
    return {
        "swagger": "2.0",
        "info": {"title": "Proreus", "version": "v1"},
        "paths": paths,
        "definitions": schemas("#/definitions/"),
    }


def _operation_2(kind: Kind, path: str, method: str, reference: dict[str, str]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": place, "type": type_, "required": place == "path"}
        for name, place, type_ in _parameters(path, method)
    ]
    if method in ("post", "put", "patch"):
        body = {"type": "object"} if method == "patch" else reference
        parameters.append({"name": "body", "in": "body", "required": True, "schema": body})
    return {
        "consumes": list(_PATCHES) if method == "patch" else ["application/json"],
        "produces": ["application/json"],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "schema": reference}},
        "x-kubernetes-action": _ACTIONS[method],
        _GVK: _gvk(kind),
    }


def groups_3() -> dict[str, list[Kind]]:
    """The documents of version 3, by the path that each is about."""
    kinds: dict[str, list[Kind]] = {}
    for kind in KINDS:
        kinds.setdefault(_base(kind).strip("/"), []).append(kind)
    return kinds


@cache
def index_3() -> dict[str, Any]:
    """The document of /openapi/v3: where the others are, and their digests."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(path)}"} for path in groups_3()
        }
    }


def _digest(path: str) -> str:
    return hashlib.sha256(msgspec.json.encode(version_3(path))).hexdigest().upper()


@cache
def version_3(path: str) -> dict[str, Any]:
    """The document of one group and version ("apis/apps/v1")."""
    paths: dict[str, Any] = {}
    for kind in groups_3()[path]:
        reference = {"$ref": f"#/components/schemas/{_name_of(kind)}"}
        for place, methods in _paths(kind):
            paths[place] = {method: _operation_3(kind, place, method, reference) for method in methods}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Proreus", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas("#/components/schemas/")},
    }


def _operation_3(kind: Kind, path: str, method: str, reference: dict[str, str]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "parameters": [
            {"name": name, "in": place, "required": place == "path", "schema": {"type": type_}}
            for name, place, type_ in _parameters(path, method)
        ],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": _ACTIONS[method],
        _GVK: _gvk(kind),
    }
    if method in ("post", "put"):
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    elif method == "patch":
        anything = {"schema": {"type": "object"}}
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(_PATCHES, anything)}
    return operation
