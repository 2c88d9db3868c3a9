"""exec, attach and port-forward: what is asked is checked and begun as any request is, then HTTP is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from proreus.engine.api.exec.port_forward import MOST_PORTS, ChannelForwarding, SpdyForwarding, port_of
from proreus.engine.api.exec.session import Activity, StreamsWanted, converse, keep_alive
from proreus.engine.api.exec.spdy_command import SpdyCommand
from proreus.engine.api.exec.websocket_channels import CommandChannels
from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.pod_lookup import container_of, node_of
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.api.server.reply import Answer, Header, Reply, Stream, Switch
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    CommandWanted,
    ContainerSession,
    PodExec,
    RuntimeRefused,
)
from proreus.engine.wire.spdy import SpdySession
from proreus.engine.wire.websocket import TunnelledBytes, WebSocket, handshake
from proreus.httpserver.upgrade import Upgrade, Upgraded

WEBSOCKET, SPDY = "websocket", "spdy/3.1"
_V5, _V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_FORWARD, _TUNNELLED = "portforward.k8s.io", "SPDY/3.1+portforward.k8s.io"
_GOODBYE_SECONDS = 5.0
"""How long a client may take to hang up after the end was told: one that loses the connection earlier may
lose the last of the output."""
_WEBSOCKET_VERSION = "13"
Handler = Callable[[RequestTarget, ApiRequest], Awaitable[Answer]]


class PodStreams:
    def __init__(
        self,
        registry: Registry,
        commands: PodExec | None,
        limits: ApiLimits,
        relay: NodeRelay | None = None,
        followers: Seats | None = None,
    ) -> None:
        """relay: asks other processes about pods of theirs; followers: for those who read what it answers."""
        self._registry, self._commands, self._limits, self._relay = registry, commands, limits, relay
        self._seats = Seats(limits.streams, limits.streams_per_client, "too many streams are open")
        self._followers = followers or self._seats

    def where_it_runs(self, answer: Handler) -> Handler:
        """Answered by the process whose node runs the pod."""
        relay = self._relay
        if relay is None:
            return answer

        async def answered(target: RequestTarget, asked: ApiRequest) -> Answer:
            node = node_of(await self._registry.get(POD, target.namespace, target.name))
            if not relay.is_elsewhere(node):
                return await answer(target, asked)
            if asked.upgrade is None:
                return await self._followed(relay, node, asked)
            return await self._relayed(relay, node, asked, asked.upgrade)

        return answered

    async def _followed(self, relay: NodeRelay, node: str, asked: ApiRequest) -> Answer:
        self._followers.check(asked.client)
        answer = await relay.follow(node, asked)
        if not isinstance(answer, Stream):
            return answer

        async def seated() -> AsyncGenerator[bytes, None]:
            async with aclosing(answer.pieces):
                with self._followers.seated(asked.client):
                    async for piece in answer.pieces:
                        yield piece

        return Stream(seated(), answer.media_type, may_refuse=True)

    async def _relayed(self, relay: NodeRelay, node: str, asked: ApiRequest, upgrade: Upgrade) -> Answer:
        self._seats.check(asked.client)
        relayed = await relay.open(node, asked)
        if not relayed.switched:
            return Reply(await relayed.body(), relayed.status, relayed.media_type)
        return self._switch(asked, upgrade, relayed.headers, relayed.converse, relayed.close)

    async def exec(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """A command in a container."""
        wanted = _streams_of(asked)
        words = asked.repeated("command")
        if not words or any("\0" in word for word in words):
            raise BadRequest("command: Required value: the words of a command, without NUL")
        pod, commands = await self._pod(target)
        container = container_of(pod, asked.query.get("container", ""))

        async def begin() -> ContainerSession:
            order = CommandWanted(container, tuple(words), wanted.stdin, wanted.tty)
            return await commands.begin(pod["metadata"]["uid"], order)

        return await self._talk(asked, wanted, begin)

    async def attach(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """The first process of a container."""
        wanted = _streams_of(asked)
        pod, commands = await self._pod(target)
        container = container_of(pod, asked.query.get("container", ""))

        async def begin() -> ContainerSession:
            return await commands.attach(
                pod["metadata"]["uid"], AttachWanted(container, wanted.stdin, wanted.tty)
            )

        return await self._talk(asked, wanted, begin)

    async def portforward(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """Ports of a pod."""
        known = {WEBSOCKET: (_TUNNELLED, _V4), SPDY: (_FORWARD,)}
        upgrade, protocol, headers = _negotiated(asked, known)
        ports = _ports_of(asked) if protocol == _V4 else []
        pod, commands = await self._pod(target)
        uid = pod["metadata"]["uid"]

        async def run(connection: Upgraded) -> None:
            activity = Activity(self._limits.stream_idle_seconds)

            async def connect(port: int) -> Any:
                return await commands.connect(uid, port)

            socket = WebSocket(connection)
            if protocol == _V4:
                channels = ChannelForwarding(socket, ports, connect, activity)
                await _served(channels.run(), socket.ping, connection, activity)
                await socket.close()
                return
            session = SpdySession(
                TunnelledBytes(socket, connection) if protocol == _TUNNELLED else connection
            )
            await _served(
                SpdyForwarding(session, connect, activity).run(), session.ping, connection, activity
            )

        return self._switch(asked, upgrade, headers, run)

    async def _talk(
        self, asked: ApiRequest, wanted: StreamsWanted, begin: Callable[[], Awaitable[ContainerSession]]
    ) -> Answer:
        upgrade, protocol, headers = _negotiated(asked, {WEBSOCKET: (_V5, _V4), SPDY: (_V4, _V5)})
        self._seats.check(asked.client)
        try:
            session = await begin()
        except RuntimeRefused as refused:
            raise BadRequest(str(refused)) from refused

        async def run(connection: Upgraded) -> None:
            activity = Activity(self._limits.stream_idle_seconds)
            if upgrade.protocol == WEBSOCKET:
                socket = WebSocket(connection)
                channels = CommandChannels(socket, wanted, closes=protocol == _V5)
                async with _reading(channels.run(), socket.ping, connection) as gone:
                    await converse(session, channels.ends, gone, activity)
                    await socket.close()
                    await _said(gone)
                return
            spdy = SpdySession(connection)
            streams = SpdyCommand(spdy, wanted)
            async with _reading(streams.run(), spdy.ping, connection) as gone:
                ends = await streams.ends(gone)
                if ends is not None:
                    await converse(session, ends, gone, activity)
                    await _said(gone)

        return self._switch(asked, upgrade, headers, run, session.close)

    def _switch(
        self,
        asked: ApiRequest,
        upgrade: Upgrade,
        headers: list[Header],
        run: Callable[[Upgraded], Awaitable[None]],
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> Switch:
        """Counted while it is open; `close` is called at the end, however it comes."""
        self._seats.sit(asked.client)

        async def switched() -> None:
            connection = None
            try:
                connection = upgrade.accept(headers)
                await run(connection)
            except ConnectionError:
                return  # the client has gone
            finally:
                self._seats.rise(asked.client)
                if connection is not None:
                    connection.close()
                if close is not None:
                    await close()

        return Switch(switched)

    async def _pod(self, target: RequestTarget) -> tuple[Mapping[str, Any], PodExec]:
        pod = await self._registry.get(POD, target.namespace, target.name)
        if self._commands is None:
            raise BadRequest("no runtime of this engine runs commands")
        node_of(pod)
        return pod, self._commands


def _streams_of(asked: ApiRequest) -> StreamsWanted:
    stdin, stdout, stderr, tty = (asked.flag(name) for name in ("stdin", "stdout", "stderr", "tty"))
    if not (stdin or stdout or stderr):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return StreamsWanted(stdin, stdout, stderr and not tty, tty)


def _ports_of(asked: ApiRequest) -> list[int]:
    texts = [text for value in asked.repeated("ports") for text in value.split(",")]
    ports = [port_of(text) for text in texts]
    if not ports or len(ports) > MOST_PORTS or None in ports:
        raise BadRequest(f"ports: Invalid value: 1 to {MOST_PORTS} numbers from 1 to 65535")
    return [port for port in ports if port is not None]


def _negotiated(asked: ApiRequest, known: Mapping[str, tuple[str, ...]]) -> tuple[Upgrade, str, list[Header]]:
    """How the client goes on, in which of the protocols that both know, and what it is answered."""
    upgrade = asked.upgrade
    if upgrade is None or upgrade.protocol not in known:
        raise BadRequest("Upgrade request required: a stream needs WebSocket or SPDY/3.1")
    header = "sec-websocket-protocol" if upgrade.protocol == WEBSOCKET else "x-stream-protocol-version"
    offered = asked.listed(header)
    protocol = next(
        (protocol_name for protocol_name in known[upgrade.protocol] if protocol_name in offered), None
    )
    if protocol is None:
        raise BadRequest(
            f"{header}: {', '.join(offered)[:200]!r}: supported values: {', '.join(known[upgrade.protocol])}"
        )
    if upgrade.protocol == SPDY:
        agreed = (b"x-stream-protocol-version", protocol.encode())
        return upgrade, protocol, [(b"upgrade", b"SPDY/3.1"), (b"connection", b"Upgrade"), agreed]
    if asked.method != "GET" or asked.listed("sec-websocket-version") != [_WEBSOCKET_VERSION]:
        raise BadRequest("sec-websocket-version: a WebSocket is asked for by GET, in version 13")
    try:
        return upgrade, protocol, handshake("".join(asked.listed("sec-websocket-key")), protocol)
    except ValueError as error:
        raise BadRequest(str(error)) from None


@asynccontextmanager
async def _reading(
    work: Awaitable[None], ping: Callable[[], Awaitable[None]], connection: Upgraded
) -> AsyncIterator[asyncio.Event]:
    """What the client sends is taken meanwhile; yields what is set when it has gone."""
    tasks = [
        asyncio.ensure_future(work),
        asyncio.ensure_future(connection.gone()),
        asyncio.ensure_future(keep_alive(ping)),
    ]

    gone = asyncio.Event()
    for task in tasks[:2]:
        task.add_done_callback(lambda _: gone.set())
    try:
        yield gone
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _said(gone: asyncio.Event) -> None:
    """Until the client hangs up, or has had the time to."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(gone.wait(), _GOODBYE_SECONDS)


async def _served(
    work: Awaitable[None], ping: Callable[[], Awaitable[None]], connection: Upgraded, activity: Activity
) -> None:
    """Until the work is done, the client has gone, or nothing has moved for too long."""
    async with _reading(work, ping, connection) as gone:
        leaving = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(activity.ended())]
        await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
