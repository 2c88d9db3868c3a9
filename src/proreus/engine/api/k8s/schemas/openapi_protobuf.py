"""OpenAPI version 2 as protobuf, which is all that older kubectl ask for.

The messages are those of the public gnostic schema (`openapi.v2.Document`); a document is written once, so
its few messages are encoded by hand, with the numbers of their fields beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


def encode_document(document: dict[str, Any]) -> bytes:
    """The Document message of a document of version 2."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_named(2, path, _path(item)) for path, item in document["paths"].items())
    definitions = b"".join(
        _named(1, name, _schema(definition)) for name, definition in document["definitions"].items()
    )
    return _text(1, "2.0") + _message(2, info) + _message(8, paths) + _message(9, definitions)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path(item: dict[str, Any]) -> bytes:
    return b"".join(_message(_METHODS[method], _operation(operation)) for method, operation in item.items())


def _operation(operation: dict[str, Any]) -> bytes:
    responses = b"".join(
        _named(
            1,
            code,
            _message(
                1, _text(1, response["description"]) + _message(2, _message(1, _schema(response["schema"])))
            ),
        )
        for code, response in operation["responses"].items()
    )
    return (
        _texts(6, operation["produces"])
        + _texts(7, operation["consumes"])
        + b"".join(_message(8, _message(1, _parameter(parameter))) for parameter in operation["parameters"])
        + _message(9, responses)
        + _extensions(13, operation)
    )


def _parameter(parameter: dict[str, Any]) -> bytes:
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body") + _flag(4, parameter["required"])
        return _message(1, body + _message(5, _schema(parameter["schema"])))
    at_path = parameter["in"] == "path"
    message = _flag(1, parameter["required"]) + _text(2, parameter["in"]) + _text(4, parameter["name"])
    message += _text(5 if at_path else 6, parameter["type"])
    return _message(2, _message(4 if at_path else 3, message))


def _schema(schema: dict[str, Any]) -> bytes:
    parts = []
    if "$ref" in schema:
        parts.append(_text(1, schema["$ref"]))
    if "format" in schema:
        parts.append(_text(2, schema["format"]))
    if "description" in schema:
        parts.append(_text(4, schema["description"]))
    parts.append(_texts(19, schema.get("required", ())))
    if "additionalProperties" in schema:
        parts.append(_message(21, _message(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(
            _message(
                25,
                b"".join(
                    _named(1, name, _schema(property_schema))
                    for name, property_schema in schema["properties"].items()
                ),
            )
        )
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _extensions(number: int, of: dict[str, Any]) -> bytes:
    """Whatever begins with x-, as YAML, of which JSON is a part."""
    return b"".join(
        _named(number, name, _text(2, msgspec.json.encode(value).decode()))
        for name, value in of.items()
        if name.startswith("x-")
    )


def _named(number: int, name: str, value: bytes) -> bytes:
    return _message(number, _text(1, name) + _message(2, value))


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_text(number, text) for text in texts)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _flag(number: int, flag: bool) -> bytes:
    return _varint(number << 3) + b"\x01" if flag else b""


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
