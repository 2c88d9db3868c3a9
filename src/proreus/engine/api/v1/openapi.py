"""OpenAPI of what stands under /v1."""

from __future__ import annotations

from functools import cache
from typing import Any

from proreus.engine.api.v1.openapi_containers import container_paths

_TEXT: dict[str, Any] = {"type": "string"}
_SCHEDULER: dict[str, Any] = {
    "type": "object",
    "required": ["policy"],
    "properties": {
        "policy": {"type": "string", "minLength": 1, "maxLength": 1024},
        "shadow": {"type": "string", "maxLength": 1024},
        "deadline_ms": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "maximum": 10000},
        "candidate": {"type": "string", "maxLength": 1024},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "maximum": 0.5},
    },
    "additionalProperties": False,
}
_NAME: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
}
_FAILING: dict[str, Any] = {"type": "object", "properties": {"policy": _TEXT, "shadow": _TEXT}}
_NAMED: dict[str, Any] = {
    "type": "object",
    "required": ["name", "policy", "shadow", "deadline_ms"],
    "properties": {
        **_SCHEDULER["properties"],
        "name": _TEXT,
        "refused": _TEXT,
        "failing": _FAILING,
        "promotion": {"type": "object", "properties": {"stage": _TEXT, "told": _TEXT}},
    },
}


def _list_of(name: str, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name],
        "properties": {name: {"type": "array", "items": item}},
    }


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _answer(
    about: str, schema: dict[str, Any], media_type: str = "application/json", *, made: bool = False
) -> dict[str, Any]:
    refused = {
        "description": "Refused; a Status object says why.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}},
    }
    return {
        "201" if made else "200": {"description": about, "content": {media_type: {"schema": schema}}},
        **dict.fromkeys(("400", "401", "403", "404", "405", "409", "413", "415", "429", "503"), refused),
    }


def _reading(about: str, schema: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": about, "parameters": list(parameters), "responses": _answer(about, schema)}}


_COMMAND: dict[str, Any] = {
    "type": "object",
    "required": ["command"],
    "properties": {
        "command": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 4096},
        "container": _TEXT,
        "stdin": {"type": "string", "format": "byte"},
    },
    "additionalProperties": False,
}
_IMPORT: dict[str, Any] = {
    "type": "object",
    "anyOf": [{"required": ["upload"]}, {"required": ["name"]}],
    "properties": {
        "upload": {"type": "string", "maxLength": 64},
        "name": {"type": "string", "maxLength": 512, "pattern": "^[!-~]*$"},
    },
    "additionalProperties": False,
}
_UPLOAD = _object(upload=_TEXT, size={"type": "integer", "minimum": 0})
_UPLOAD_NAME: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_EXECUTED = _object(exitCode={"type": "integer"}, stdout=_TEXT, stderr=_TEXT)


@cache
def document() -> dict[str, Any]:
    """The whole of it."""
    name = {"name": "name", "in": "path", "required": True, "schema": _NAME}
    switch = {
        "summary": "This policy decides for that scheduler from now on.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _SCHEDULER}}},
        "responses": _answer("What was chosen.", _NAMED),
    }
    forget = {
        "summary": "The default decides for that scheduler again.",
        "responses": _answer("Its name.", _object(name=_TEXT)),
    }
    number = {"type": "integer", "minimum": 0}
    image = _object(
        names={"type": "array", "items": _TEXT}, size_bytes=number, nodes={"type": "array", "items": _TEXT}
    )
    decision = _object(time=_TEXT, namespace=_TEXT, pod=_TEXT, policy=_TEXT, action=_TEXT, node=_TEXT)
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}}
    form = {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["json", "text"]}}
    figures = _reading("Figures of the API and the cluster.", {"type": "object"}, form)
    figures["get"]["responses"]["200"]["content"]["text/plain"] = {"schema": _TEXT}
    use = {"type": "object"}
    of_use = [
        {"name": "sort", "in": "query", "schema": {"type": "string", "enum": ["cpu", "memory", "name"]}},
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 1000}},
        {"name": "points", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 1440}},
        {"name": "trend", "in": "query", "schema": {"type": "string", "enum": ["recent", "day"]}},
    ]
    of_pods = [{"name": "namespace", "in": "query", "schema": _TEXT}]
    selected = "selectors as in Kubernetes' lists"
    events = "Server-sent events: status, nodes, decisions; with pods=true also pods and events."
    return {
        "openapi": "3.0.3",
        "info": {"title": "Proreus", "version": "v1"},
        "paths": {
            "/v1/schedulers": _reading("Which policy decides for whom.", _list_of("schedulers", _NAMED)),
            "/v1/schedulers/{name}": {
                "parameters": [name],
                **_reading("Which policy decides for one.", _NAMED),
                "put": switch,
                "delete": forget,
            },
            "/v1/policies": _reading(
                "Policies that place pods.", _list_of("policies", _object(name=_TEXT, about=_TEXT))
            ),
            **container_paths(_answer),
            "/v1/images": {
                **_reading("Images that nodes hold.", _list_of("images", image)),
                "post": {
                    "summary": "Hold the images of an upload, or pull one, on this process' node.",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": _IMPORT}}},
                    "responses": _answer("Those images.", _list_of("images", image)),
                },
                "delete": {
                    "summary": "Forget an image of this process' node.",
                    "parameters": [
                        {
                            "name": "name",
                            "in": "query",
                            "required": True,
                            "schema": {"type": "string", "minLength": 1, "maxLength": 512},
                        }
                    ],
                    "responses": _answer("Which, and where.", _object(name=_TEXT, node=_TEXT)),
                },
            },
            "/v1/images/uploads": {
                "post": {
                    "summary": "Begin to upload an archive.",
                    "responses": _answer("Its name.", _UPLOAD, made=True),
                }
            },
            "/v1/images/uploads/{upload}": {
                "parameters": [{"name": "upload", "in": "path", "required": True, "schema": _UPLOAD_NAME}],
                "put": {
                    "summary": "The next piece of the archive, at most 3 MiB.",
                    "parameters": [{"name": "offset", "in": "query", "required": True, "schema": number}],
                    "requestBody": {
                        "required": True,
                        "content": {"application/octet-stream": {"schema": {**_TEXT, "format": "binary"}}},
                    },
                    "responses": _answer("How much has come.", _UPLOAD),
                },
                "delete": {
                    "summary": "Forget what has come of it.",
                    "responses": _answer("Which.", _object(upload=_TEXT)),
                },
            },
            "/v1/decisions": _reading(
                "The last decisions, newest first.", _list_of("decisions", decision), limit
            ),
            "/v1/metrics": figures,
            "/v1/use/nodes": _reading(
                f"What nodes use, and used; {selected}.", _list_of("nodes", use), *of_use
            ),
            "/v1/use/pods": _reading(
                f"What pods use, and used; {selected}.", _list_of("pods", use), *of_use, *of_pods
            ),
            "/v1/events": {
                "get": {
                    "summary": events,
                    "parameters": [{"name": "pods", "in": "query", "schema": {"type": "boolean"}}],
                    "responses": _answer(events, _TEXT, "text/event-stream"),
                }
            },
            "/v1/namespaces/{namespace}/pods/{name}/exec": {
                "parameters": [{**name, "name": "namespace"}, name],
                "post": {
                    "summary": "Run a command in a container.",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": _COMMAND}}},
                    "responses": _answer("Its exit code, and its output as base64.", _EXECUTED),
                },
            },
            "/v1/openapi.json": _reading("This document.", {"type": "object"}),
        },
        "components": {
            "schemas": {
                "Status": _object(
                    kind=_TEXT, status=_TEXT, message=_TEXT, reason=_TEXT, code={"type": "integer"}
                )
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
