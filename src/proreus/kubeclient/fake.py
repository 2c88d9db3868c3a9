"""An API server in memory, for tests of whoever uses the client: objects, versions, watches, faults.

It keeps what agents rely on: one growing resourceVersion, conflicts, uids, pages, watches from a version with
410 where that is forgotten, merge patches, bindings that are refused the second time, evictions. It validates
nothing and has no controllers; for that there is the embedded API of `proreus up`.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from proreus.kubeclient.errors import Silent, Unreachable
from proreus.kubeclient.transport import Request, Response, Stream

Object = dict[str, Any]
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)


@dataclass
class _Kept:
    """All objects of one kind, and what happened to them."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    events: list[tuple[int, str, Object]] = field(default_factory=list)
    forgotten: int = 0
    """Events up to this version are not known any more."""


class FakeApiServer:
    """A `Transport`; hand it to a KubeClient."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kept] = {}
        self._version = 1
        self._changed = asyncio.Event()
        self._epoch = 0
        self.down = False
        """Connections are refused."""
        self.resources: dict[str, list[str]] = {}
        """What discovery tells, by `v1` or `group/version`; empty: whatever was created."""
        self.answer: Callable[[Request], Response | None] = lambda _: None
        """Asked first; what it answers is the answer: 429, 500, garbage."""
        self.requests: list[Request] = []

    # What a test does.

    def put(self, plural: str, obj: Object, group: str = "") -> Object:
        """An object is there, or is now like this; for the core group and namespaces of any name."""
        kept = self._kinds.setdefault((group, plural), _Kept())
        metadata = obj.setdefault("metadata", {})
        key = metadata.get("namespace", ""), metadata["name"]
        before = kept.objects.get(key)
        if before is not None:
            metadata.setdefault("uid", before["metadata"]["uid"])
        return self._write(kept, key, obj, "ADDED" if before is None else "MODIFIED")

    def remove(self, plural: str, name: str, namespace: str = "", group: str = "") -> None:
        """An object is gone."""
        kept = self._kinds[group, plural]
        self._delete(kept, (namespace, name))

    def all(self, plural: str, group: str = "") -> list[Object]:
        """What there is."""
        kept = self._kinds.get((group, plural))
        return [] if kept is None else list(kept.objects.values())

    def cut_watches(self) -> None:
        """All streams break."""
        self._epoch += 1
        self._wake()

    def forget_history(self) -> None:
        """Watches from any version until now get 410."""
        self._version += 1
        for kept in self._kinds.values():
            kept.events.clear()
            kept.forgotten = self._version
        self.cut_watches()

    # What the client does.

    async def send(self, request: Request) -> Response:
        """One call."""
        await asyncio.sleep(0)
        if self.down:
            raise Unreachable("the server cannot be reached", sent=False)
        self.requests.append(request)
        chosen = self.answer(request)
        return chosen if chosen is not None else self._answered(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """A watch."""
        await asyncio.sleep(0)
        if self.down:
            raise Unreachable("the server cannot be reached", sent=False)
        self.requests.append(request)
        chosen = self.answer(request)
        if chosen is not None:
            yield _Whole(chosen)
            return
        found, query = _parsed(request)
        kept = self._kinds.setdefault(_kind_of(found), _Kept())
        after = int(query.get("resourceVersion") or 0)
        if after < kept.forgotten:
            yield _Whole(_status(410, "Expired", "too old resource version"))
            return
        yield _Watch(self, kept, after, found["namespace"] or "")

    async def close(self) -> None:
        """There is nothing to let go of."""

    # How it answers.

    def _answered(self, request: Request) -> Response:
        if request.target.startswith("/version"):
            return _json(200, {"major": "1", "minor": "36"})
        found, query = _parsed(request)
        if not found:
            return self._discovery(request.target)
        kept = self._kinds.setdefault(_kind_of(found), _Kept())
        key = found["namespace"] or "", found["name"] or ""
        body: Any = json.loads(request.body) if request.body else {}
        match request.method, bool(found["name"]):
            case "GET", False:
                return self._list(kept, key[0], query)
            case "POST", False:
                key = key[0], body["metadata"].get("name") or f"x-{uuid.uuid4().hex[:8]}"
                body["metadata"] |= {"name": key[1], **({"namespace": key[0]} if key[0] else {})}
                if key in kept.objects:
                    return _status(409, "AlreadyExists", f"{key[1]} already exists")
                return _json(201, self._write(kept, key, body, "ADDED"))
            case _ if key not in kept.objects:
                return _status(404, "NotFound", f"{found['plural']} {key[1]!r} not found")
            case "GET", True:
                return _json(200, kept.objects[key])
            case method, True:
                return self._change(kept, key, (method, found["sub"] or ""), body)
        return _status(405, "MethodNotAllowed", request.method)

    def _change(self, kept: _Kept, key: tuple[str, str], verb: tuple[str, str], body: Any) -> Response:
        before = kept.objects[key]
        metadata = before["metadata"]
        match verb:
            case "POST", "binding":
                if before.get("spec", {}).get("nodeName"):
                    return _status(409, "Conflict", f"pod {key[1]} is already assigned to a node")
                if (uid := body["metadata"].get("uid")) and uid != metadata["uid"]:
                    return _status(409, "Conflict", "Precondition failed: UID")
                noted = {**metadata.get("annotations", {}), **body["metadata"].get("annotations", {})}
                bound = {
                    **before,
                    "metadata": {**metadata, "annotations": noted},
                    "spec": {**before.get("spec", {}), "nodeName": body["target"]["name"]},
                }
                self._write(kept, key, bound, "MODIFIED")
                return _json(201, {"kind": "Status", "status": "Success"})
            case ("POST", "eviction") | ("DELETE", ""):
                options = body.get("deleteOptions", body)
                wanted = (options.get("preconditions") or {}).get("uid")
                if wanted and wanted != metadata["uid"]:
                    return _status(409, "Conflict", "Precondition failed: UID")
                self._delete(kept, key)
                return _json(200, {"kind": "Status", "status": "Success"})
            case "PUT", _:
                version = body["metadata"].get("resourceVersion")
                if version and version != metadata["resourceVersion"]:
                    return _status(409, "Conflict", "the object has been modified")
                body["metadata"]["uid"] = metadata["uid"]
                return _json(200, self._write(kept, key, body, "MODIFIED"))
            case "PATCH", _:
                return _json(200, self._write(kept, key, _merged(before, body), "MODIFIED"))
        return _status(405, "MethodNotAllowed", " ".join(verb))

    def _list(self, kept: _Kept, namespace: str, query: dict[str, str]) -> Response:
        items = [
            obj for (where, _), obj in sorted(kept.objects.items()) if not namespace or where == namespace
        ]
        start = int(query.get("continue") or 0)
        most = int(query.get("limit") or 0) or len(items) or 1
        metadata: Object = {"resourceVersion": str(self._version)}
        if start + most < len(items):
            metadata["continue"] = str(start + most)
        return _json(200, {"kind": "List", "metadata": metadata, "items": items[start : start + most]})

    def _discovery(self, target: str) -> Response:
        told = target.removeprefix("/apis/").removeprefix("/api/")
        known = self.resources
        if not known:
            return _json(200, {"resources": [{"name": plural} for _, plural in self._kinds]})
        if told not in known:
            return _status(404, "NotFound", f"{told} is not served")
        return _json(200, {"resources": [{"name": name} for name in known[told]]})

    def _write(self, kept: _Kept, key: tuple[str, str], obj: Object, type_: str) -> Object:
        self._version += 1
        metadata = {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **obj.get("metadata", {}),
            "resourceVersion": str(self._version),
        }
        written = {**obj, "metadata": metadata}
        kept.objects[key] = written
        kept.events.append((self._version, type_, written))
        self._wake()
        return written

    def _delete(self, kept: _Kept, key: tuple[str, str]) -> None:
        self._version += 1
        gone = kept.objects.pop(key)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
        kept.events.append((self._version, "DELETED", gone))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def epoch(self) -> int:
        """Grows when watches are cut."""
        return self._epoch

    async def changed(self, seconds: float) -> None:
        """Until something happens, or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            raise Silent(f"nothing came for {seconds:g} s", sent=True) from None


class _Watch:
    """Events of one kind after a version."""

    status = 200

    def __init__(self, server: FakeApiServer, kept: _Kept, after: int, namespace: str) -> None:
        self.headers: dict[str, str] = {}
        self._server, self._kept, self._after, self._namespace = server, kept, after, namespace
        self._epoch = server.epoch

    async def chunks(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """One event at a time."""
        while True:
            if self._server.down or self._server.epoch != self._epoch:
                raise Unreachable("the connection broke", sent=True)
            for version, type_, obj in list(self._kept.events):
                if version > self._after:
                    self._after = version
                    if not self._namespace or obj["metadata"].get("namespace") == self._namespace:
                        yield json.dumps({"type": type_, "object": obj}).encode() + b"\n"
            await self._server.changed(idle_seconds)

    async def read(self) -> bytes:
        """A watch has no end."""
        raise NotImplementedError


class _Whole:
    """An answer that is there at once."""

    def __init__(self, response: Response) -> None:
        self.status, self.headers, self._body = response.status, response.headers, response.body

    async def chunks(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """In one."""
        yield self._body

    async def read(self) -> bytes:
        """All of it."""
        return self._body


def _parsed(request: Request) -> tuple[dict[str, str | None], dict[str, str]]:
    parts = urlsplit(request.target)
    found = _PATH.fullmatch(parts.path)
    groups = (
        {}
        if found is None
        else {name: None if text is None else unquote(text) for name, text in found.groupdict().items()}
    )
    return groups, dict(parse_qsl(parts.query))


def _kind_of(found: dict[str, str | None]) -> tuple[str, str]:
    return found["group"] or "", found["plural"] or ""


def _merged(before: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    merged = dict(before) if isinstance(before, dict) else {}
    for name, part in change.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), part)
    return merged


def _json(code: int, obj: Any) -> Response:
    return Response(code, json.dumps(obj).encode(), {"content-type": "application/json"})


def _status(code: int, reason: str, message: str) -> Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return _json(code, status)
