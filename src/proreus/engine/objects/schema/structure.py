"""Whether an object has the structure of its kind: known fields of the right types.

Objects that are right, which is nearly all, are seen to be so by msgspec, against types made from the table
of fields. Where it objects, the object is walked: nulls go, as Go reads them as absent; unknown fields go and
are named; quantities that are numbers become text, as Kubernetes hands them out; a wrong type is refused with
its path.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

import msgspec

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import BUDGET, NODE, Kind
from proreus.engine.objects.schema.fields import Type, definitions

_MOMENT = Annotated[datetime, msgspec.Meta(tz=True)]
_SCALARS: dict[str, Any] = {
    "string": str,
    "bytes": str,
    "bool": bool,
    "int32": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "int64": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "number": float,
    "quantity": str,
    "int-or-string": int | str,
    "time": _MOMENT,
    "microtime": _MOMENT,
    "any": Any,
}
_GO_TYPES = {"int-or-string": "intstr.IntOrString", "quantity": "resource.Quantity", "number": "float64"}


class Shaped(msgspec.Struct, frozen=True, gc=False):
    """An object of the right structure."""

    object: dict[str, Any]
    unknown: tuple[str, ...] = ()
    """The paths of fields that the kind does not have and that were left out."""


_WITH_SPEC = (BUDGET, NODE)


def shaped(kind: Kind, obj: dict[str, Any]) -> Shaped:
    """The object with known fields only; `BadRequest` where one is of the wrong type. It stays as it is."""
    stated = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if stated != (kind.api_version, kind.kind):
        raise BadRequest(
            f"the API version and kind in the data ({stated[0]}, {stated[1]}) do not match the expected ones "
            f"({kind.api_version}, {kind.kind})",
            kind=kind.kind,
        )
    try:
        msgspec.convert(obj, _struct(kind.kind))
    except msgspec.ValidationError:
        return _walked(kind, obj)
    return Shaped(obj)


def with_spec(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    """As the real API server keeps it: nodes and budgets have a spec, though nothing stands in it. Whoever
    reads them relies on that."""
    return {**obj, "spec": {}} if kind in _WITH_SPEC and obj.get("spec") is None else obj


def _walked(kind: Kind, obj: dict[str, Any]) -> Shaped:
    unknown: list[str] = []
    try:
        read = _read(Type(kind.kind), obj, "", unknown)
    except _WrongType as error:
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"json: cannot unmarshal {_json_word(error.value)} into Go struct field {kind.kind}{error.path} "
            f"of type {error.wanted}",
            kind=kind.kind,
        ) from None
    return Shaped(read, tuple(unknown))


class _WrongType(Exception):
    def __init__(self, path: str, value: Any, wanted: str) -> None:
        super().__init__(path)
        self.path, self.value, self.wanted = path, value, wanted


def _read(type_: Type, value: Any, path: str, unknown: list[str]) -> Any:
    """The value without nulls, unknown fields and numbers for quantities."""
    if type_.of is not None:
        if type_.word == "[]":
            if not isinstance(value, list):
                raise _WrongType(path, value, _go_type(type_))
            return [_read(type_.of, inner, f"{path}[{place}]", unknown) for place, inner in enumerate(value)]
        if not isinstance(value, dict):
            raise _WrongType(path, value, _go_type(type_))
        return {key: _read(type_.of, inner, f"{path}.{key}", unknown) for key, inner in value.items()}
    if not type_.definition:
        return _read_scalar(type_, value, path)
    if value is None:  # an element of a list: Go makes an empty one of it
        return {}
    if not isinstance(value, dict):
        raise _WrongType(path, value, _go_type(type_))
    fields = definitions()[type_.definition].fields
    read = {}
    for key, inner in value.items():
        if key not in fields:
            unknown.append(f"{path}.{key}".removeprefix("."))
        elif inner is not None:
            read[key] = _read(fields[key].type, inner, f"{path}.{key}", unknown)
    return read


def _read_scalar(type_: Type, value: Any, path: str) -> Any:
    if value is None:
        value = {"bool": False, "int32": 0, "int64": 0, "number": 0}.get(type_.word, "")
    if type_.word == "quantity" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if isinstance(value, int) else format(Decimal(str(value)).normalize(), "f")
    try:
        msgspec.convert(value, _SCALARS[type_.word])
    except msgspec.ValidationError:
        raise _WrongType(path, value, _go_type(type_)) from None
    return value


def _go_type(type_: Type) -> str:
    if type_.of is not None:
        return ("[]" if type_.word == "[]" else "map[string]") + _go_type(type_.of)
    if type_.word in ("time", "microtime"):
        return "v1.Time" if type_.word == "time" else "v1.MicroTime"
    return f"v1.{type_.word}" if type_.definition else _GO_TYPES.get(type_.word, type_.word)


def _json_word(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


@cache
def _struct(name: str) -> Any:
    fields = definitions()[name].fields
    named = {f"f{place}": field.name for place, field in enumerate(fields.values())}
    return msgspec.defstruct(
        name,
        [
            (f"f{place}", _python_type(field.type) | msgspec.UnsetType, msgspec.UNSET)
            for place, field in enumerate(fields.values())
        ],
        rename=named,
        forbid_unknown_fields=True,
        gc=False,
    )


def _python_type(type_: Type) -> Any:
    if type_.of is not None:
        inner = _python_type(type_.of)
        return list.__class_getitem__(inner) if type_.word == "[]" else dict.__class_getitem__((str, inner))
    return _struct(type_.definition) if type_.definition else _SCALARS[type_.word]
