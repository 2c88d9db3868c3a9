"""OpenAPI of /v1/containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_NAME: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
}
_WORDS: dict[str, Any] = {"type": "array", "items": _TEXT, "maxItems": 4096}
_WANTED: dict[str, Any] = {
    "type": "object",
    "required": ["name", "image"],
    "properties": {
        "name": _NAME,
        "image": {"type": "string", "minLength": 1, "maxLength": 512},
        "namespace": _NAME,
        "command": _WORDS,
        "args": _WORDS,
        "env": {"type": "object", "additionalProperties": _TEXT},
        "limits": {"type": "object", "additionalProperties": {"anyOf": [_TEXT, {"type": "number"}]}},
        "restart": {"type": "string", "enum": ["Always", "OnFailure", "Never"]},
        "scheduler": _TEXT,
    },
    "additionalProperties": False,
}
_CONTAINER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "namespace", "pod", "name", "image", "node", "state", "restarts"],
    "properties": {
        **dict.fromkeys(("id", "namespace", "pod", "name", "image", "node", "reason", "started"), _TEXT),
        "state": {"type": "string", "enum": ["waiting", "running", "terminated", "stopped"]},
        "ready": {"type": "boolean"},
        "restarts": {"type": "integer", "minimum": 0},
        "exit_code": {"type": "integer", "nullable": True},
    },
}
_CHANGES = {
    "start": "A container that was stopped runs again.",
    "stop": "It ends, and stays away until it is started; its pod stays.",
    "restart": "It ends, and another attempt begins.",
}
Responses = Callable[..., dict[str, Any]]


def container_paths(responses: Responses) -> dict[str, Any]:
    """The paths; `responses` makes those of an operation."""
    base = "/v1/containers/{namespace}/{pod}/{name}"
    where = [
        {"name": name, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1, "maxLength": 253}}
        for name in ("namespace", "pod", "name")
    ]
    selected = [{"name": name, "in": "query", "schema": _TEXT} for name in ("namespace", "node")]
    log = [
        {"name": "tailLines", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 10**9}},
        {"name": "previous", "in": "query", "schema": {"type": "boolean"}},
    ]
    listed = {
        "type": "object",
        "required": ["containers"],
        "properties": {"containers": {"type": "array", "items": _CONTAINER}},
    }
    gone = {"type": "object", "required": ["id"], "properties": {"id": _TEXT}}
    paths: dict[str, Any] = {
        "/v1/containers": {
            "get": {
                "summary": "Containers of all pods.",
                "parameters": selected,
                "responses": responses("Containers.", listed),
            },
            "post": {
                "summary": "A container, in a pod of its own.",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _WANTED}}},
                "responses": _with_invalid(responses("The container.", _CONTAINER, made=True)),
            },
        },
        base: {
            "parameters": where,
            "get": {"summary": "One container.", "responses": responses("The container.", _CONTAINER)},
            "delete": {
                "summary": "It goes, with its pod; refused where others share that.",
                "responses": responses("Which.", gone),
            },
        },
        f"{base}/logs": {
            "parameters": where,
            "get": {
                "summary": "What it has written.",
                "parameters": log,
                "responses": _with_invalid(responses("Its lines.", _TEXT, "text/plain")),
            },
        },
    }
    for change, about in _CHANGES.items():
        post = {"summary": about, "responses": responses("The container.", _CONTAINER)}
        paths[f"{base}/{change}"] = {"parameters": where, "post": post}
    return paths


def _with_invalid(answers: dict[str, Any]) -> dict[str, Any]:
    """An object that breaks a rule of its kind is refused with 422."""
    return {**answers, "422": answers["400"]}
