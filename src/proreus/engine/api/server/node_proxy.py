"""Requests about the inside of a pod that another process runs: that process is asked, and answers for us.

It has a server of its own (`node_endpoints`), which speaks as this one does. Who asks was checked here;
streams are handed on byte by byte.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import Any

import httpcore
import httpx

from proreus.engine.api.server.reply import Answer, Header, Reply, Stream
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import BadRequest, Unserviceable
from proreus.engine.objects.node_endpoints import NodeEndpoint, find_door
from proreus.engine.objects.registry import Registry
from proreus.httpserver.upgrade import Upgraded

_HANDED_ON = (
    "accept",
    "connection",
    "content-type",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "upgrade",
    "x-stream-protocol-version",
)
_OPEN_SECONDS = 10.0
_HEAD_SECONDS = 70.0
"""How long the head of an answer may take to come: a command that is waited for may run for a minute."""
_MOST_BYTES = 64 * 1024 * 1024
"""Of an answer in one piece."""
_PIECE = 64 * 1024
_PATIENCE = httpx.Timeout(_OPEN_SECONDS, read=None)
"""What is followed may be quiet for as long as it likes."""


class NodeRelay:
    """Asks the processes of other nodes."""

    def __init__(self, registry: Registry, own: frozenset[str]) -> None:
        """own: the nodes of this process."""
        self._registry, self._own = registry, own

    def is_elsewhere(self, node: str) -> bool:
        """Whether another process has to be asked."""
        return node not in self._own

    async def open(self, node: str, asked: ApiRequest, body: bytes = b"") -> Relayed:
        """The same request there, answered at least in its head."""
        door = await find_door(self._registry, node)
        if door is None:
            raise BadRequest(f"the node {node} is run by another process, which answers nobody for it")
        client = httpx.AsyncClient(verify=_trusting(door), timeout=_PATIENCE, trust_env=False)
        headers = [("authorization", f"Bearer {door.token}"), *asked.named(_HANDED_ON)]
        try:
            request = client.build_request(
                asked.method, door.url + asked.target, headers=headers, content=body
            )
            async with asyncio.timeout(_HEAD_SECONDS):
                relayed = Relayed(client, await client.send(request, stream=True))
        except (httpx.TransportError, httpx.InvalidURL, TimeoutError) as error:
            await client.aclose()
            message = str(error) or type(error).__name__
            raise Unserviceable(f"the node {node} does not answer at {door.url}: {message}") from error
        if relayed.status == 401:
            await relayed.close()
            raise Unserviceable(f"the node {node} does not know this API any more; it is being started anew")
        return relayed

    async def reply(self, node: str, asked: ApiRequest, body: bytes = b"") -> Answer:
        """What it answers, in one piece."""
        relayed = await self.open(node, asked, body)
        return Reply(await relayed.body(), relayed.status, relayed.media_type)

    async def follow(self, node: str, asked: ApiRequest) -> Answer:
        """What it answers, piece by piece as it comes."""
        relayed = await self.open(node, asked)
        if relayed.status != 200:
            return Reply(await relayed.body(), relayed.status, relayed.media_type)
        return Stream(relayed.pieces(), relayed.media_type)


class Relayed:
    """The answer of another process."""

    def __init__(self, client: httpx.AsyncClient, response: httpx.Response) -> None:
        self._client, self._response = client, response
        self.status = response.status_code
        self.media_type = response.headers.get("content-type", "application/json").encode("latin-1")

    @property
    def switched(self) -> bool:
        """Whether it has left HTTP."""
        return self.status == 101

    @property
    def headers(self) -> list[Header]:
        """As they came."""
        return list(self._response.headers.raw)

    async def body(self) -> bytes:
        kept = bytearray()
        async for piece in self.pieces():
            kept += piece
            if len(kept) > _MOST_BYTES:
                raise Unserviceable("the answer of the pod's node is too long")
        return bytes(kept)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """As they come; what is lost on the way ends them."""
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx.TransportError as error:
            yield f"\nthe node was lost: {error}\n".encode()
        finally:
            await self.close()

    async def converse(self, connection: Upgraded) -> None:
        """Both ways, until either side has ended."""
        stream = self._response.extensions["network_stream"]
        ways = [
            asyncio.ensure_future(_out(stream, connection)),
            asyncio.ensure_future(_in(connection, stream)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def close(self) -> None:
        """Hang up."""
        await self._response.aclose()
        await self._client.aclose()


async def _out(stream: Any, connection: Upgraded) -> None:
    try:
        while data := await stream.read(_PIECE):
            await connection.write(data)
    except (httpcore.NetworkError, ConnectionError):
        return  # one of them has gone: that is the end


async def _in(connection: Upgraded, stream: Any) -> None:
    try:
        while data := await connection.read():
            await stream.write(data)
    except (httpcore.NetworkError, ConnectionError):
        return


def _trusting(door: NodeEndpoint) -> ssl.SSLContext:
    """Nobody but the door that was noted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=door.certificate)
    return context
