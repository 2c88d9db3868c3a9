"""A protobuf body, read into the JSON shape of its object.

The envelope names version and kind; the numbers of fields stand in `numbers.txt`, their types in the table of
fields. Unknown numbers are passed over, as protobuf has it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from proreus.engine.objects.errors import BadRequest, TooLarge
from proreus.engine.objects.schema.fields import Type, definitions
from proreus.engine.objects.size_limits import MOST_VALUES

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_MOST_DEPTH = 48
_ENVELOPE_TYPE, _ENVELOPE_RAW = 1, 2
_FIXED64 = 1


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A field behind a number; without a type, one whose own fields stand among those of its owner."""

    name: str
    type: Type | None
    omitted: bool = False
    """Whether Go's JSON leaves it out where it is 0 or false; protobuf states it all the same."""


@cache
def _table() -> Mapping[str, Mapping[int, _Numbered]]:
    text = (files("proreus.engine.api.k8s.protobuf") / "numbers.txt").read_text(encoding="utf-8")
    rows = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, *fields = line.split()
            rows[name] = fields
    known = definitions()
    table: dict[str, dict[int, _Numbered]] = {}
    for name, fields in rows.items():
        of = known[name].fields if name in known else {}
        table[name] = {}
        for stated in fields:
            field, _, rest = stated.partition("=")
            number, _, type_ = rest.partition(":")
            omitted = number.endswith("?")
            number = number.removesuffix("?")
            if field.startswith("*"):
                table[name][int(number)] = _Numbered(field[1:], None)
            elif type_ or field in of:
                table[name][int(number)] = _Numbered(
                    field, _type(type_) if type_ else of[field].type, omitted
                )
            else:  # of what stands among others' fields: these know the type
                table[name][int(number)] = _Numbered(field, Type("any"), omitted)
    return table


def read_protobuf(body: bytes) -> dict[str, Any]:
    """The object of a body; `BadRequest` where it is none."""
    if not body.startswith(_MAGIC):
        raise BadRequest("the body is not Kubernetes' protobuf: it does not begin with k8s")
    try:
        return _Reader().read(body)
    except (_Broken, UnicodeDecodeError, OverflowError, ValueError, OSError) as error:
        raise BadRequest(f"the body cannot be read as protobuf: {error}") from None


class _Broken(Exception):
    """It ends early, or has a type that is not used."""


class _Reader:
    """Reads one body; its fields are counted, those within others included."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def read(self, body: bytes) -> dict[str, Any]:
        """The object."""
        api_version = kind = ""
        raw: bytes = b""
        for number, value in self._fields(body[len(_MAGIC) :]):
            if number == _ENVELOPE_TYPE and isinstance(value, bytes):
                named = dict(self._fields(value))
                api_version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
            elif number == _ENVELOPE_RAW and isinstance(value, bytes):
                raw = value
        if kind not in _table():
            raise BadRequest(f"protobuf of the kind {kind[:80]!r} is not read; JSON is")
        return {"apiVersion": api_version, "kind": kind, **self._message(kind, raw, 0)}

    def _fields(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        at = 0
        while at < len(data):
            self._left -= 1
            if self._left < 0:
                raise TooLarge(f"Request entity too large: an object has at most {MOST_VALUES} values")
            key, at = _varint(data, at)
            match key & 7:
                case 0:
                    value, at = _varint(data, at)
                    yield key >> 3, value
                case 2:
                    length, at = _varint(data, at)
                    if at + length > len(data):
                        raise _Broken("it ends early")
                    yield key >> 3, data[at : at + length]
                    at += length
                case 1 | 5 as fixed:
                    at += 8 if fixed == _FIXED64 else 4
                case other:
                    raise _Broken(f"wire type {other} is not used")

    def _message(self, name: str, data: bytes, depth: int, owner: str = "") -> dict[str, Any]:
        """The fields of a message; owner: among whose fields they stand, if they do."""
        if depth > _MOST_DEPTH:
            raise _Broken(f"it is nested deeper than {_MOST_DEPTH}")
        numbered = _table().get(name, {})
        types = definitions()[owner].fields if owner else {}
        message: dict[str, Any] = {}
        for number, value in self._fields(data):
            field = numbered.get(number)
            if field is None:
                continue
            if field.type is None:
                if isinstance(value, bytes):
                    message |= self._message(field.name, value, depth + 1, owner or name)
                continue
            if owner and field.name not in types:
                continue
            self._put(message, field, types[field.name].type if owner else field.type, value, depth)
        return message

    def _put(
        self, message: dict[str, Any], field: _Numbered, type_: Type, value: int | bytes, depth: int
    ) -> None:
        """One more value of a field; what Go writes though it is empty is left out, as its JSON does."""
        name = field.name
        if type_.word == "[]" and type_.of is not None:
            message.setdefault(name, []).append(self._value(type_.of, value, depth))
        elif type_.word == "{}" and type_.of is not None:
            entry = dict(self._fields(_bytes(value)))
            key = _text(_bytes(entry.get(1, b"")))
            message.setdefault(name, {})[key] = self._value(type_.of, entry.get(2, b""), depth)
        else:
            read = self._value(type_, value, depth)
            if read not in ("", None) and (read or not field.omitted):
                message[name] = read

    def _value(self, type_: Type, value: int | bytes, depth: int) -> Any:
        match type_.word:
            case "string":
                return _text(_bytes(value))
            case "bytes":
                return base64.b64encode(_bytes(value)).decode()
            case "bool":
                return bool(_integer(value))
            case "int32" | "int64":
                signed = _integer(value)
                return signed - 2**64 if signed >= 2**63 else signed
            case "quantity":
                return _text(_bytes(dict(self._fields(_bytes(value))).get(1, b"")))
            case "time" | "microtime":
                return _moment(dict(self._fields(_bytes(value))))
            case "int-or-string":
                parts = dict(self._fields(_bytes(value)))
                return _text(_bytes(parts.get(3, b""))) if parts.get(1) else _integer(parts.get(2, 0))
            case "{}" if type_.of is not None:
                entry = dict(self._fields(_bytes(value)))
                return {_text(_bytes(entry.get(1, b""))): self._value(type_.of, entry.get(2, b""), depth + 1)}
            case word if type_.definition or word in _table():
                return self._message(word, _bytes(value), depth + 1)
            case _:
                return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Broken("it ends early")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7


def _moment(parts: dict[int, int | bytes]) -> str | None:
    seconds = _integer(parts.get(1, 0))
    if not parts or seconds >= 2**63:  # Go's moment that is none
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    nanoseconds = _integer(parts.get(2, 0))
    fraction = f".{nanoseconds // 1000:06d}" if nanoseconds else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise _Broken("a number stands where a text should")


def _integer(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise _Broken("a text stands where a number should")


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _type(text: str) -> Type:
    return Type("[]", Type(text[1:-1])) if text.startswith("[") else Type(text)
