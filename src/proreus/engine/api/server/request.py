"""A request: what its head says, its query, and its body, read within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from proreus.engine.api.k8s.protobuf import decoder as protobuf
from proreus.engine.api.server.authentication import ON_THIS_MACHINE, Identity
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.api.server.request_body import JSON, duplicates_in, read_document
from proreus.engine.api.server.status import RequestTimeout, UnsupportedType
from proreus.engine.objects.errors import BadRequest, TooLarge
from proreus.engine.objects.offload import offload
from proreus.httpserver.byte_budget import ByteBudget
from proreus.httpserver.client_identity import client_of
from proreus.httpserver.upgrade import EXTENSION, Upgrade

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LARGE_BODY = 64 * 1024
_MOST_FIELDS = 4096 + 256
"""Of a query: the words of a command are some of them."""
_LONGEST_MANAGER = 128


class ApiRequest:
    """One request, before anything is known of what it is about."""

    __slots__ = (
        "_body_taken",
        "_budget",
        "_headers",
        "_limits",
        "_query",
        "_raw_query",
        "_receive",
        "accept",
        "agent",
        "authorization",
        "client",
        "doing",
        "duplicates",
        "host",
        "identity",
        "length",
        "media_type",
        "method",
        "origin",
        "path",
        "site",
        "size",
        "upgrade",
    )

    def __init__(self, scope: Scope, receive: Receive, limits: ApiLimits, budget: ByteBudget) -> None:
        self.method: str = scope["method"]
        self.path: bytes = scope.get("raw_path") or scope["path"].encode()
        self._raw_query: bytes = scope["query_string"]
        self._query: dict[str, str] | None = None
        address = scope.get("client")
        self.client = client_of(address[0]) if address else ""
        self.identity: Identity = ON_THIS_MACHINE
        self.doing = ""
        """The verb, once it is known."""
        self._receive, self._limits, self._budget = receive, limits, budget
        self._body_taken = 0
        self.size = 0
        self.duplicates: tuple[str, ...] = ()
        """The paths of fields that stand twice in the body."""
        """Bytes of its body, once it was read."""
        self.accept = self.authorization = self.agent = self.media_type = self.site = b""
        self.host: bytes | None = None
        self.origin: bytes | None = None
        self.length = 0
        self.upgrade: Upgrade | None = (scope.get("extensions") or {}).get(EXTENSION)
        """The client's offer to leave HTTP."""
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        for name, value in self._headers:
            match name:
                case b"accept":
                    self.accept = value
                case b"authorization":
                    self.authorization = value
                case b"content-length":
                    self.length = int(value) if value.isdigit() and len(value) < 20 else 0
                case b"content-type":
                    self.media_type = value
                case b"host":
                    # Two of them are no name at all.
                    self.host = value if self.host is None else b"?"
                case b"origin":
                    self.origin = value
                case b"sec-fetch-site":
                    self.site = value
                case b"user-agent":
                    self.agent = value
                case _:
                    pass

    @property
    def query(self) -> dict[str, str]:
        """The query's fields; of those that stand there twice the first."""
        if self._query is None:
            query: dict[str, str] = {}
            if self._raw_query:
                try:
                    pairs = parse_qsl(
                        self._raw_query.decode(),
                        keep_blank_values=True,
                        max_num_fields=_MOST_FIELDS,
                        errors="strict",
                    )
                except ValueError as error:
                    raise BadRequest(f"the query cannot be read: {error}") from None
                for name, value in pairs:
                    query.setdefault(name, value)
            self._query = query
        return self._query

    def repeated(self, name: str) -> list[str]:
        """All values of a field of the query."""
        pairs = parse_qsl(
            self._raw_query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
        return [value for key, value in pairs if key == name]

    @property
    def target(self) -> str:
        """Path and query, as they came."""
        query = self._raw_query.decode("latin-1")
        return self.path.decode("latin-1") + (f"?{query}" if query else "")

    def named(self, headers: Collection[str]) -> list[tuple[str, str]]:
        """The headers of these names, in their order."""
        told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers]
        return [(name, value) for name, value in told if name in headers]

    def listed(self, header: str) -> list[str]:
        """The parts of a header that is a list, of all that bear this name."""
        values = (value.decode("latin-1") for name, value in self._headers if name == header.encode())
        return [part.strip() for value in values for part in value.split(",") if part.strip()]

    def flag(self, name: str) -> bool:
        """Whether a field of the query says yes."""
        match self.query.get(name, ""):
            case "true" | "1" | "True" | "t" | "T" | "TRUE":
                return True
            case "" | "false" | "0" | "False" | "f" | "F" | "FALSE":
                return False
            case other:
                raise BadRequest(f"{name}: {other[:80]!r} is neither true nor false")

    def number(self, name: str) -> int | None:
        """A field of the query that is a whole number, 0 or more; None where it is not there."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise BadRequest(f"{name}: {text[:80]!r} is not a whole number of 0 or more")
        return int(text)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be changed in the end."""
        match self.query.get("dryRun", ""):
            case "":
                return False
            case "All":
                return True
            case other:
                raise BadRequest(f'Invalid value: {other[:80]!r}: supported values: "All"')

    @property
    def manager(self) -> str:
        """Who is said to have set the fields: as the request says, or what the client calls itself."""
        stated = self.query.get("fieldManager", "")
        if len(stated) > _LONGEST_MANAGER or not stated.isprintable():
            raise BadRequest(f"fieldManager: it has at most {_LONGEST_MANAGER} characters, all printable")
        return stated or self.agent.decode("latin-1").partition("/")[0][:_LONGEST_MANAGER] or "unknown"

    @property
    def content_type(self) -> str:
        """The media type of the body, without its parameters."""
        return self.media_type.decode("latin-1").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        """The whole body; refused where it is too long, or too long in coming."""
        longest = self._limits.body_bytes
        if self.length > longest:
            raise _too_large(longest)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                more = True
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise BadRequest("the body ended early")
                    piece = message.get("body", b"")
                    pieces.append(piece)
                    size += len(piece)
                    if size > longest:
                        raise _too_large(longest)
                    if size > _LARGE_BODY:
                        self._budget.take(self.client, size - self._body_taken)
                        self._body_taken = size
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RequestTimeout(f"the body did not come within {self._limits.body_seconds:g} s") from None
        self.size = size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def let_go(self) -> None:
        """The body is no longer needed."""
        if self._body_taken:
            self._budget.give_back(self.client, self._body_taken)
            self._body_taken = 0

    async def document(self, *types: str) -> Any:
        """The body as JSON (or YAML), of one of these media types; None where it is empty."""
        content_type = self.content_type
        if not content_type and not types and not self.agent.startswith(b"Mozilla/"):
            content_type = JSON  # older kubectl do not say; a browser always can
        if not types and content_type == protobuf.MEDIA_TYPE:
            return await self._read(protobuf.read_protobuf)
        if content_type not in (types or (JSON,)):
            message = " or ".join(types or (JSON,))
            raise UnsupportedType(
                f"the body of the request was in an unknown format: {content_type!r} is not {message}"
            )
        return await self._read(lambda body: self._read_twice(body, content_type))

    def _read_twice(self, body: bytes, content_type: str) -> Any:
        """The document; what stands twice in it is noted, where somebody wants to be told."""
        document = read_document(body, content_type)
        if self.query.get("fieldValidation") != "Ignore":
            self.duplicates = duplicates_in(body, content_type, document)
        return document

    async def optional_document(self) -> Any:
        """The body as JSON where there is one, whatever its type says: deletions mostly have none."""
        body = await self.body()
        if not body:
            return None
        if self.content_type == protobuf.MEDIA_TYPE:
            return await offload(len(body), lambda: protobuf.read_protobuf(body))
        if self.content_type not in (JSON, ""):
            raise UnsupportedType(f"the body is {self.content_type!r}, not {JSON}")
        return await offload(len(body), lambda: read_document(body, JSON))

    async def _read(self, read: Callable[[bytes], Any]) -> Any:
        body = await self.body()
        return await offload(len(body), lambda: read(body))


def _too_large(longest: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {longest} bytes")
