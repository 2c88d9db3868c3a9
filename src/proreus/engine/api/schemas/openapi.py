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

from proreus.engine.api.schemas.reading import Field, Model, models
from proreus.engine.objects.kinds import KINDS, Kind

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_PLAIN: dict[str, dict[str, Any]] = {
    _QUANTITY: {"type": "string", "description": "An amount: 500m, 1.5, 2Gi."},
    _TIME: {"type": "string", "format": "date-time", "description": "A moment, as RFC 3339 writes it."},
    _INT_OR_STRING: {"type": "string", "format": "int-or-string", "description": "A number, or a text."},
}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_GVK = "x-kubernetes-group-version-kind"


def schemas(prefix: str) -> dict[str, Any]:
    """All definitions; `prefix` is where references find them."""
    return {**_PLAIN, **{name: _schema(name, model, prefix) for name, model in models().items()}}


def _schema(name: str, model: Model, prefix: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "description": model.about}
    required = [field for field, known in model.fields.items() if known.required]
    if required:
        schema["required"] = required
    schema["properties"] = {field: _property(known, prefix) for field, known in model.fields.items()}
    kinds = [kind for kind in KINDS if _full_name(kind) == name]
    if kinds:
        schema[_GVK] = [_gvk(kind) for kind in kinds]
    return schema


def _property(field: Field, prefix: str) -> dict[str, Any]:
    item = _type(field.type, prefix)
    if not field.listed:
        return _described(item, field.about, prefix)
    listed = {"type": "array", "items": item, "description": field.about}
    if field.key:
        listed["x-kubernetes-patch-merge-key"] = field.key
        listed["x-kubernetes-patch-strategy"] = "merge"
    return listed


def _described(item: dict[str, Any], about: str, prefix: str) -> dict[str, Any]:
    if "$ref" in item and prefix.startswith("#/components"):
        return {"allOf": [item], "description": about}
    return {**item, "description": about}


def _type(name: str, prefix: str) -> dict[str, Any]:
    match name:
        case "string" | "boolean" | "object":
            return {"type": name}
        case "integer":
            return {"type": "integer", "format": "int64"}
        case "time":
            return {"$ref": prefix + _TIME}
        case "quantity":
            return {"$ref": prefix + _QUANTITY}
        case "intstr":
            return {"$ref": prefix + _INT_OR_STRING}
        case "map":
            return {"type": "object", "additionalProperties": {"type": "string"}}
        case "map:quantity":
            return {"type": "object", "additionalProperties": {"$ref": prefix + _QUANTITY}}
        case _:
            return {"$ref": prefix + name}


def _full_name(kind: Kind) -> str:
    return f"io.k8s.api.{(kind.group or 'core').partition('.')[0]}.{kind.version}.{kind.kind}"


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
    one = f"{base}/{kind.plural}/{{name}}"
    yield one, ("get", "put", "patch", "delete")
    if kind.status:
        yield f"{one}/status", ("get", "put", "patch")


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
        reference = {"$ref": f"#/definitions/{_full_name(kind)}"}
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
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        found.setdefault(_base(kind).strip("/"), []).append(kind)
    return found


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
        reference = {"$ref": f"#/components/schemas/{_full_name(kind)}"}
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
