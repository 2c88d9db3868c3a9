"""The forms that answers come in: the object itself, a table for people, or its metadata alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from proreus.engine.api.server.status import NotAcceptable
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.tables import IncludeObject, table

_LONGEST_ACCEPT = 2048
_GROUP = "meta.k8s.io"


class Shape(Enum):
    """What is shown of an object."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class Form:
    """A shape, in one of the versions of Kubernetes' meta group."""

    shape: Shape = Shape.OBJECT
    version: str = "v1"
    include: IncludeObject = "Metadata"
    """Of tables: what stands beside each row: None, Metadata or Object."""

    @property
    def plain(self) -> bool:
        """Whether it is the object itself."""
        return self.shape is Shape.OBJECT

    def one(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        """One object."""
        match self.shape:
            case Shape.OBJECT:
                return obj
            case Shape.METADATA:
                return self._metadata(obj)
            case Shape.TABLE:
                return self._table(
                    kind, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                )

    def many(self, kind: Kind, items: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, Any]:
        """A list of objects."""
        match self.shape:
            case Shape.OBJECT:
                return {
                    "kind": f"{kind.kind}List",
                    "apiVersion": kind.api_version,
                    "metadata": metadata,
                    "items": items,
                }
            case Shape.METADATA:
                return {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": f"{_GROUP}/{self.version}",
                    "metadata": metadata,
                    "items": [self._metadata(item) for item in items],
                }
            case Shape.TABLE:
                return self._table(kind, items, metadata)

    def event(self, kind: Kind, obj: dict[str, Any], type_: str, *, with_columns: bool) -> dict[str, Any]:
        """One change of a watch; a table says once what its columns are."""
        if self.shape is not Shape.TABLE:
            return self.one(kind, obj)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._table(kind, [] if type_ == "BOOKMARK" else [obj], metadata)
        if not with_columns:
            table["columnDefinitions"] = None
        return table

    def _table(self, kind: Kind, items: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, Any]:
        shown = table(kind, items, time.time(), self.include)
        shown["apiVersion"], shown["metadata"] = f"{_GROUP}/{self.version}", metadata
        return shown

    def _metadata(self, obj: dict[str, Any]) -> dict[str, Any]:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"{_GROUP}/{self.version}",
            "metadata": obj["metadata"],
        }


_PLAIN = Form()


@lru_cache(maxsize=512)
def form_of(accept: bytes, include: str) -> Form:
    """The first of the accepted forms that can be had; include: of the query's `includeObject`."""
    match include:
        case "None" | "Metadata" | "Object":
            beside: IncludeObject = include
        case "":
            beside = "Metadata"
        case _:
            raise BadRequest(f"includeObject: {include[:80]!r} is none of None, Metadata, Object")
    if len(accept) > _LONGEST_ACCEPT:
        raise BadRequest("the header Accept is too long")
    for stated in _offers(accept):
        if "as" not in stated:
            return _PLAIN
        version = stated.get("v", "v1")
        if stated.get("g") != _GROUP or version not in ("v1", "v1beta1"):
            continue
        match stated["as"]:
            case "table":
                return Form(Shape.TABLE, version, beside)
            case "partialobjectmetadata" | "partialobjectmetadatalist":
                return Form(Shape.METADATA, version)
            case _:
                continue
    raise _not_acceptable()


def check_plain(accept: bytes) -> None:
    """Raise `NotAcceptable` where the client takes everything but the object itself."""
    if not any("as" not in stated for stated in _offers(accept)):
        raise _not_acceptable()


def _offers(accept: bytes) -> Iterator[dict[str, str]]:
    """The parameters of each form of JSON that the client takes."""
    for offer in accept.decode("latin-1").lower().split(","):
        media_type, *parameters = [part.strip() for part in offer.strip().split(";")]
        if media_type in ("application/json", "application/*", "*/*", ""):
            yield dict(part.partition("=")[::2] for part in parameters)


def _not_acceptable() -> NotAcceptable:
    return NotAcceptable("only the following media types are accepted: application/json")
