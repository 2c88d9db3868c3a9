"""What a probe over the network says of a server that does not serve: a kubelet's words, with the address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from proreus.engine.kubelet.handlers import Reached
from proreus.engine.kubelet.probes import Probed, once
from proreus.engine.runtimes.protocol import CommandResult


def probed(address: str = "127.0.0.1") -> Probed:
    """A container at that address, of which nothing but the words of its probes matters."""

    async def execute(command: list[str], limit: float) -> CommandResult:
        raise AssertionError(command)

    async def fail(message: str, spec: Mapping[str, Any]) -> None:
        raise AssertionError(message)

    return Probed(Reached({"name": "main"}, address, execute), lambda _: None, lambda _: None, fail)


def asked(spec: Mapping[str, Any], address: str = "127.0.0.1") -> tuple[bool | None, str]:
    return asyncio.run(once(probed(address), spec))


def free_port() -> int:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_closed_port_is_named_with_the_reason() -> None:
    port = free_port()
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert asked({"tcpSocket": {"port": port}}) == (False, refused)
    for path, url in ((None, "/"), ("/ready?full=1", "/ready?full=1"), ("ready", "/ready")):
        message = f'Get "http://127.0.0.1:{port}{url}": {refused}'
        assert asked({"httpGet": {"port": port, "path": path}}) == (False, message)
    _, message = asked({"httpGet": {"port": port, "scheme": "HTTPS"}})
    assert message == f'Get "https://127.0.0.1:{port}/": {refused}'


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    _, message = asked({"httpGet": {"port": 9}}, "::1")
    assert message.startswith('Get "http://[::1]:9/": dial tcp [::1]:9: connect: ')


def test_a_server_that_says_nothing_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ok, message = asked({"httpGet": {"port": port}, "timeoutSeconds": 0.2})
    late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert (ok, message) == (False, f'Get "http://127.0.0.1:{port}/": {late}')


@pytest.mark.parametrize(("answer", "says"), [(b"", "EOF"), (b"hello\r\n", "the answer is not HTTP")])
def test_a_server_that_speaks_no_http_is_named(answer: bytes, says: str) -> None:
    async def scene() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        told = await once(probed(), {"httpGet": {"port": port}})
        server.close()
        assert told == (False, f'Get "http://127.0.0.1:{port}/": {says}')

    asyncio.run(scene())
