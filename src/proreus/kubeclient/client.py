"""Calls of a Kubernetes API: get, list, create, replace, patch, delete, and the subresources that agents use.

What is safe to ask twice is asked again where the server is away or busy: reads, and writes that name what
they change. What is not (POST) is asked again only where the server cannot have done anything: it refused the
connection, or said 429. Everything has an end: of time, of bytes, of attempts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from proreus.kubeclient.config import ClusterConfig
from proreus.kubeclient.errors import (
    ApiError,
    Expired,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Untrusted,
    refusal,
)
from proreus.kubeclient.http1 import Http1Transport
from proreus.kubeclient.rate_limit import RateLimit
from proreus.kubeclient.resources import PODS, Discovery, Resource
from proreus.kubeclient.transport import Request, Response, Transport

Object = dict[str, Any]
Patch = Literal["merge", "strategic", "json"]
_PATCHES: dict[Patch, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_PAGE = 500
_LONGEST_LINE = 16 << 20
"""Bytes of one event of a watch; an object has a million and a half at most."""
_SAFE = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How long a call is tried."""

    seconds: float = 15.0
    """In all."""
    first: float = 0.1
    """Before the second attempt; then twice as long each time, up to `longest`, give or take a half."""
    longest: float = 3.0


@dataclass(frozen=True)
class ClientOptions:
    """How a client asks."""

    answer_seconds: float = 20.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    qps: float = 0.0
    """Requests a second at most; 0: as many as the server takes."""
    burst: int = 100


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of a list, as of one resourceVersion."""

    items: list[Object]
    version: str


@dataclass(frozen=True, slots=True)
class Selected:
    """Which objects of a kind are asked for."""

    namespace: str = ""
    labels: str = ""
    """A label selector, as kubectl's -l has it."""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """As a request has it."""
        return {
            **({"labelSelector": self.labels} if self.labels else {}),
            **({"fieldSelector": self.fields} if self.fields else {}),
        }


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How an object goes."""

    uid: str = ""
    """Only if it is this one of all that ever had the name."""
    grace_seconds: int | None = None
    """None: as the object says."""
    propagation: str = ""

    def body(self, api_version: str = "v1") -> Object:
        """As a request has it."""
        body: Object = {"apiVersion": api_version, "kind": "DeleteOptions"}
        if self.uid:
            body["preconditions"] = {"uid": self.uid}
        if self.grace_seconds is not None:
            body["gracePeriodSeconds"] = self.grace_seconds
        if self.propagation:
            body["propagationPolicy"] = self.propagation
        return body


class KubeClient:
    """Asks one API server."""

    def __init__(self, transport: Transport, options: ClientOptions | None = None) -> None:
        self._transport, self.options = transport, options or ClientOptions()
        self._refresh = _no_refresh
        self.server = ""
        """Its address, where there is one."""
        self._limit = RateLimit(self.options.qps, self.options.burst) if self.options.qps else None
        self.discovery = Discovery(self)
        self.retried = 0
        """Attempts beyond the first, of all calls."""

    @staticmethod
    def of(config: ClusterConfig, options: ClientOptions | None = None, agent: str = "proreus") -> KubeClient:
        """Over HTTP."""
        client = KubeClient(Http1Transport(config, agent=agent), options)
        client._refresh = config.credentials.refused
        client.server = config.server
        return client

    async def close(self) -> None:
        """Let go of all connections."""
        await self._transport.close()

    # Objects.

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """One object."""
        return await self.get_path(resource.path(namespace, name))

    async def list(
        self, resource: Resource, selected: Selected | None = None, *, fresh: bool = True
    ) -> Listed:
        """All objects, page by page; fresh: as of now, else whatever the server has in memory."""
        selected = selected or Selected()
        query = selected.query()
        path = resource.path(selected.namespace)
        if not fresh:
            page = await self._ask("GET", path, {**query, "resourceVersion": "0"})
            return Listed(_items(page, resource), _version(page))
        for attempt in range(3):
            try:
                return await self._pages(path, query, resource, _PAGE if attempt < 2 else 0)
            except Expired:
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    async def _pages(self, path: str, query: Mapping[str, str], resource: Resource, page_size: int) -> Listed:
        limit = {"limit": str(page_size)} if page_size else {}
        items: list[Object] = []
        version, token = "", ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._ask("GET", path, {**query, **limit, **more})
            items.extend(_items(page, resource))
            version = _version(page) or version
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return Listed(items, version)

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """A new object; asked once, unless the server says that it did nothing."""
        where = namespace or obj.get("metadata", {}).get("namespace", "")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._ask("POST", resource.path(where), body=body)

    async def replace(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """The object as it is handed in, if nobody changed it since it was read."""
        metadata = obj["metadata"]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._ask("PUT", path, body=body)

    async def patch(
        self,
        resource: Resource,
        where: tuple[str, str],
        change: Object | Sequence[Object],
        *,
        subresource: str = "",
        kind: Patch = "merge",
    ) -> Object:
        """Change parts of an object; where: namespace ("" where there is none) and name."""
        namespace, name = where
        path = resource.path(namespace, name, subresource)
        return await self._ask("PATCH", path, body=change, media_type=_PATCHES[kind])

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> Object:
        """Let an object go."""
        body = (options or DeleteOptions()).body()
        return await self._ask("DELETE", resource.path(namespace, name), body=body)

    async def delete_collection(self, resource: Resource, namespace: str, options: Object) -> None:
        """Let all of a namespace go."""
        await self._ask("DELETE", resource.path(namespace), body=options)

    # Subresources.

    async def bind(
        self, pod: tuple[str, str, str], node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Give a pod (namespace, name, uid) its node; a Conflict where it has one. Asked once: where an
        Unreachable or ServerFault leaves open whether it was done, look at the pod."""
        namespace, name, uid = pod
        metadata: Object = {"namespace": namespace, "name": name, "uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._post(PODS.path(namespace, name, "binding"), binding)

    async def evict(
        self, pod: tuple[str, str], options: DeleteOptions | None = None, *, api_version: str = "policy/v1"
    ) -> None:
        """Ask that a pod leaves; a TooManyRequests where a disruption budget says no.

        api_version: policy/v1beta1 for servers before 1.22.
        """
        namespace, name = pod
        body: Object = {
            "apiVersion": api_version,
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        if options is not None:
            body["deleteOptions"] = options.body()
        await self._post(PODS.path(namespace, name, "eviction"), body, patient=False)

    async def get_scale(self, resource: Resource, name: str, namespace: str) -> Object:
        """The Scale of an object: spec.replicas wanted, status.replicas there."""
        return await self.get_path(resource.path(namespace, name, "scale"))

    async def set_scale(self, resource: Resource, name: str, namespace: str, replicas: int) -> Object:
        """Another number of replicas."""
        return await self.patch(
            resource, (namespace, name), {"spec": {"replicas": replicas}}, subresource="scale"
        )

    # Watches.

    async def watch(
        self,
        resource: Resource,
        version: str,
        selected: Selected | None = None,
        *,
        seconds: int = 300,
        idle_seconds: float = 90.0,
    ) -> AsyncGenerator[Object, None]:
        """Events {"type", "object"} after a resourceVersion, until the server ends the watch.

        An Expired where the version is too old. seconds: after which the server ends it by itself;
        idle_seconds: without a sign of life (a bookmark comes every minute) it counts as broken.
        """
        selected = selected or Selected()
        query = {
            **selected.query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        target = f"{resource.path(selected.namespace)}?{urlencode(query)}"
        if self._limit is not None:
            await self._limit.take()
        request = Request("GET", target, seconds=self.options.answer_seconds)
        async with self._transport.stream(request) as answer:
            if answer.status >= 400:
                if answer.status == 401:
                    self._refresh()
                body = await answer.read()
                raise _refused(Response(answer.status, body, answer.headers))
            async with aclosing(_lines(answer.chunks(min(idle_seconds, seconds + 30.0)))) as lines:
                async for line in lines:
                    event = _decode(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise refusal(int(status.get("code") or 500), status)
                    yield event

    # One call.

    async def get_path(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        """Whatever stands at a path."""
        return await self._ask("GET", path, query)

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        media_type: str = "application/json",
    ) -> Object:
        target = f"{path}?{urlencode(query)}" if query else path
        content = b"" if body is None else _encode(body)
        answer = await self._tried(Request(method, target, content, media_type, self.options.answer_seconds))
        try:
            decoded: Object = _decode(answer.body)
            return decoded
        except msgspec.DecodeError as error:
            text = answer.body[:200].decode(errors="replace")
            raise ServerFault(
                f"{method} {path}: the answer is no JSON: {error}: {text!r}", answer.status
            ) from error

    async def _post(self, path: str, body: object, *, patient: bool = True) -> None:
        """Nobody reads the answer; patient: a 429 is waited for, not so where it means a budget."""
        request = Request("POST", path, _encode(body), seconds=self.options.answer_seconds)
        await self._tried(request, patient=patient)

    async def _tried(self, request: Request, *, patient: bool = True) -> Response:
        loop = asyncio.get_running_loop()
        retry = self.options.retry
        end, pause = loop.time() + retry.seconds, retry.first
        refreshed = False
        while True:
            if self._limit is not None:
                await self._limit.take()
            try:
                answer = await self._transport.send(request)
                if answer.status < 300:
                    return answer
                error: ApiError = _refused(answer)
            except Unreachable as unreachable:
                error = unreachable
            if isinstance(error, Unauthorized) and not refreshed:
                refreshed = True
                if self._refresh():
                    continue
            wait = _wait_before_retry(error, request.method, pause, patient=patient)
            if wait is None or loop.time() + wait > end:
                raise error
            self.retried += 1
            await asyncio.sleep(wait)
            pause = min(2 * pause, retry.longest)


def _no_refresh() -> bool:
    return False


def _wait_before_retry(error: ApiError, method: str, pause: float, *, patient: bool) -> float | None:
    """Seconds until the next attempt; None: there must be none."""
    jittered = pause * random.uniform(0.5, 1.5)
    match error:
        case TooManyRequests():
            return max(error.retry_after or 0.0, jittered) if patient else None
        case Untrusted():
            return None
        case Unreachable():
            return jittered if method in _SAFE or not error.sent else None
        case ServerFault():
            # It may have been done, also where the server says to come again: its store did not answer it.
            return max(error.retry_after or 0.0, jittered) if method in _SAFE else None
        case _:
            return None


def _refused(answer: Response) -> ApiError:
    text = answer.body[:4096].decode(errors="replace")
    status: Any = None
    if answer.headers.get("content-type", "").startswith("application/json"):
        try:
            status = _decode(answer.body)
        except msgspec.DecodeError:
            status = None
    told = answer.headers.get("retry-after", "")
    seconds = float(told) if told.isdecimal() and len(told) < 6 else None
    return refusal(answer.status, status, text, seconds)


def _items(page: Object, resource: Resource) -> list[Object]:
    """The items with the kind that a list leaves out."""
    items = page.get("items") or []
    for item in items:
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    return items


def _version(page: Object) -> str:
    return str((page.get("metadata") or {}).get("resourceVersion") or "")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines of a stream; the last one only where it is whole."""
    rest = b""
    async for chunk in chunks:
        lines = (rest + chunk if rest else chunk).split(b"\n")
        rest = lines.pop()
        if len(rest) > _LONGEST_LINE:
            raise Unreachable(f"an event of more than {_LONGEST_LINE} bytes", sent=True)
        for line in lines:
            if line:
                yield line
