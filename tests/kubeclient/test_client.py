"""The client over HTTP: against the embedded API, and against peers that do whatever they like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from proreus.kubeclient.client import ClientOptions, DeleteOptions, KubeClient, RetryPolicy, Selected
from proreus.kubeclient.config import ClusterConfig
from proreus.kubeclient.credentials import StaticToken
from proreus.kubeclient.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerFault,
    TooLarge,
    Unreachable,
)
from proreus.kubeclient.http1 import ConnectionLimits, Http1Transport
from proreus.kubeclient.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NEW_EVENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from tests.engine.api.live import Live, as_up, live

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
T = TypeVar("T")
_QUICK = ClientOptions(answer_seconds=1.0, retry=RetryPolicy(seconds=1.5, first=0.02, longest=0.1))


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(as_up(tmp_path_factory.mktemp("tls"))) as door:
        yield door


def _config(door: Live) -> ClusterConfig:
    assert door.options.authority is not None
    return ClusterConfig(door.over_tls, Path(door.options.authority.certificate).read_bytes())


def _with(
    config: ClusterConfig, work: Callable[[KubeClient], Awaitable[T]], options: ClientOptions = _QUICK
) -> T:
    async def main() -> T:
        client = KubeClient.of(config, options)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def test_objects_come_change_and_go(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAPS, _map("one", a="1"))
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, _map("one"))
        changed = await client.patch(CONFIG_MAPS, ("default", "one"), {"data": {"a": None, "b": "2"}})
        assert changed["data"] == {"b": "2"}
        with pytest.raises(Conflict):
            await client.replace(CONFIG_MAPS, {**made, "data": {"c": "3"}})
        replaced = await client.replace(CONFIG_MAPS, {**changed, "data": {"c": "3"}})
        assert replaced["data"] == {"c": "3"}
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, "one", "default", DeleteOptions(uid="another"))
        await client.delete(CONFIG_MAPS, "one", "default", DeleteOptions(uid=made["metadata"]["uid"]))
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "one", "default")

    _with(_config(door), work)


def test_a_pod_is_bound_once_evicted_and_scaled(door: Live) -> None:
    containers = [{"name": "c", "image": "x"}]

    async def work(client: KubeClient) -> None:
        await client.create(NODES, {"metadata": {"name": "n"}})
        spec = {"containers": containers, "schedulerName": "nobody"}
        pod = await client.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        who = ("default", "p", pod["metadata"]["uid"])
        with pytest.raises(Conflict):
            await client.bind(("default", "p", "another"), "n")
        await client.bind(who, "n", {"why": "so"})
        with pytest.raises(Conflict):
            await client.bind(who, "n")
        bound = await client.get(PODS, "p", "default")
        assert bound["spec"]["nodeName"] == "n" and bound["metadata"]["annotations"]["why"] == "so"
        await client.evict(("default", "p"), DeleteOptions(uid=who[2], grace_seconds=0))
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
        wanted = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"metadata": {"name": "d", "namespace": "default"}, "spec": wanted})
        await client.set_scale(DEPLOYMENTS, "d", "default", 3)
        assert (await client.get_scale(DEPLOYMENTS, "d", "default"))["spec"]["replicas"] == 3

    _with(_config(door), work)


def test_lists_come_in_pages_and_a_watch_goes_on_behind_them(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        for n in range(7):
            made = _map(f"m{n}")
            made["metadata"]["labels"] = {"of": "pages"}
            await client.create(CONFIG_MAPS, made)
        wanted = Selected("default", labels="of=pages")
        listed = await client._pages(CONFIG_MAPS.path("default"), wanted.query(), CONFIG_MAPS, 3)
        assert [item["metadata"]["name"] for item in listed.items] == [f"m{n}" for n in range(7)]
        assert all(item["kind"] == "ConfigMap" for item in listed.items)
        await client.delete(CONFIG_MAPS, "m3", "default")
        async for event in client.watch(CONFIG_MAPS, listed.version, wanted, seconds=5):
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "m3")
            break

    _with(_config(door), work)


def test_which_versions_a_server_has(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        budgets = await client.discovery.first(POD_DISRUPTION_BUDGETS, ("v1", "v1beta1"))
        assert budgets is not None and budgets.api_version == "policy/v1"
        assert await client.discovery.first(replace(NEW_EVENTS, group="no.such.group"), ("v1",)) is None
        assert await client.discovery.has(PODS, "binding")
        assert await client.discovery.version() >= (1, 20)

    _with(_config(door), work)


def test_a_certificate_of_somebody_else_is_not_believed(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        await client.get(NODES, "n")

    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        _with(replace(_config(door), authority=b""), work)
    with pytest.raises(Unreachable, match=r"its certificate is not trusted: .*mismatch"):
        _with(replace(_config(door), server_name="api.example.com"), work)


def _against(
    serve: Serve, work: Callable[[KubeClient], Awaitable[T]], limits: ConnectionLimits | None = None
) -> T:
    """The client asks a peer that is written down byte by byte."""

    async def main() -> T:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            finally:
                writer.close()

        server = await asyncio.start_server(served, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = ClusterConfig(f"http://127.0.0.1:{port}", credentials=StaticToken("t"))
        client = KubeClient(Http1Transport(config, limits), _QUICK)
        try:
            return await work(client)
        finally:
            await client.close()
            server.close()

    return asyncio.run(main())


def _answer(code: int, obj: object, *headers: str) -> bytes:
    body = json.dumps(obj).encode()
    head = [f"HTTP/1.1 {code} X", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def _get(client: KubeClient) -> dict[str, Any]:
    return await client.get(NODES, "n")


def test_429_waits_and_5xx_and_broken_connections_are_tried_again() -> None:
    turns = iter(
        [
            _answer(429, {"message": "later"}, "Retry-After: 0"),
            _answer(500, {"message": "etcdserver: request timed out"}),
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
            b"HTTP/1.1 100 Continue\r\n\r\n" + _answer(200, {"fine": True}),
        ]
    )
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            turn = next(turns)
            writer.write(turn)
            if len(turn) < 60:  # nothing, or half an answer
                return

    assert _against(serve, _get) == {"fine": True}
    assert len(heads) == 5 and all(b"Authorization: Bearer t\r\n" in head for head in heads)


def test_what_may_have_been_done_is_not_asked_twice() -> None:
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))

    async def bind(client: KubeClient) -> None:
        await client.bind(("ns", "pod", "uid"), "node")

    with pytest.raises(Unreachable) as caught:
        _against(serve, bind)
    assert caught.value.sent and len(asked) == 1

    async def fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(_answer(500, {"message": "etcd", "details": {"retryAfterSeconds": 1}}, "Retry-After: 1"))
        await writer.drain()
        await reader.read()

    with pytest.raises(ServerFault, match="etcd"):
        _against(fails, bind)
    assert len(asked) == 2


def test_a_peer_that_hangs_or_talks_nonsense_or_forever_is_left() -> None:
    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(Unreachable, match="within 1 s"):
        _against(hangs, _get)

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 smtp ready\r\n")
        await reader.read()

    with pytest.raises(Unreachable, match="does not speak HTTP"):
        _against(nonsense, _get)

    async def forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            await writer.drain()

    with pytest.raises(TooLarge):
        _against(forever, _get, ConnectionLimits(body=1 << 20))

    async def head_forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: " + b"y" * 1000 + b"\r\n")
            await writer.drain()

    with pytest.raises(Unreachable):
        _against(head_forever, _get)

    async def a_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
        await reader.read()

    with pytest.raises(ServerFault, match="no JSON"):
        _against(a_page, _get)


def test_a_watch_that_is_silent_is_broken_and_half_a_line_is_not_told() -> None:
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "n"}}}).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (line[:9], line[9:] + b"\n" + line[:20]):
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        await reader.read()

    async def work(client: KubeClient) -> list[str]:
        names = []
        with pytest.raises(Unreachable, match="nothing came"):
            async for event in client.watch(NODES, "5", idle_seconds=0.3):
                names.append(event["object"]["metadata"]["name"])
        return names

    assert _against(serve, work) == ["n"]


def test_a_proxy_is_asked_for_a_tunnel_and_sees_no_more(door: Live) -> None:
    asked: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                asked.append(data)
                writer.write(data)
        except ConnectionError:
            return
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        there, onward = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(relay(reader, onward), relay(there, writer))

    async def main() -> None:
        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        config = replace(_config(door), proxy=f"http://127.0.0.1:{port}", credentials=StaticToken("secret"))
        client = KubeClient.of(config, _QUICK)
        assert (await client.get_path("/version"))["major"] == "1"
        await client.close()
        proxy.close()

    asyncio.run(main())
    assert asked[0].startswith(b"CONNECT 127.0.0.1:") and not any(b"secret" in part for part in asked)


def test_a_rate_is_kept() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_answer(200, {}))

    async def work(client: KubeClient) -> float:
        limited = KubeClient(client._transport, replace(_QUICK, qps=50.0, burst=5))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*(_get(limited) for _ in range(20)))
        return loop.time() - began

    assert 0.29 <= _against(serve, work) < 3.0


def test_names_cannot_lead_elsewhere() -> None:
    assert PODS.path("a/b", "../x?y", "log") == "/api/v1/namespaces/a%2Fb/pods/..%2Fx%3Fy/log"


def test_a_refusal_is_bounded() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html>" + b"x" * 100_000
        writer.write(b"HTTP/1.1 403 X\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await reader.read()

    with pytest.raises(ApiError) as caught:
        _against(serve, _get)
    assert caught.value.code == 403 and len(str(caught.value)) < 1000
