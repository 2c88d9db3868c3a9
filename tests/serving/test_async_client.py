"""The asyncio client of the REST door, against servers that answer in other ways than ours does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from proreus.serving.client.rest import AsyncRestClient, ClientOptions, ServiceError
from proreus.serving.messages import ENCODER, PredictAnswer
from tests.serving.door_cases import Doors

STATE = np.linspace(0.0, 1.0, 6)
ANSWER = PredictAnswer(2, 7, -0.5, "model", deterministic=False)
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_server(answer: Answering) -> AsyncIterator[str]:
    """The address of a server that treats each of its connections so."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def heard_request(reader: asyncio.StreamReader) -> bytes:
    """One request with the length of its body in its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head + await reader.readexactly(int(length.partition(b":")[2]))


def in_chunks(body: bytes, size: int) -> bytes:
    """A body as HTTP/1.1 sends it where its length is not known at first."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def test_a_body_in_chunks_after_a_hint_is_understood_and_the_connection_kept() -> None:
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        for _ in range(2):
            await heard_request(reader)
            writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </openapi.json>\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            await writer.drain()
            for byte in in_chunks(ENCODER.encode(ANSWER), 9):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)

    async def ask() -> None:
        async with a_server(answer) as url, AsyncRestClient(url, ClientOptions(retries=0)) as client:
            assert await client.predict(STATE) == ANSWER
            assert await client.predict(STATE) == ANSWER

    asyncio.run(ask())
    assert len(connections) == 1


@pytest.mark.parametrize(("reported", "times"), [(True, 1), (False, 3)])
def test_only_what_changes_nothing_is_sent_again(reported: bool, times: int) -> None:
    heard: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await heard_request(reader))

    async def ask() -> None:
        async with a_server(hang_up) as url, AsyncRestClient(url, ClientOptions(retries=2)) as client:
            with pytest.raises(ServiceError) as caught:
                await (client.update([STATE], ([0], [1.0], [True])) if reported else client.predict(STATE))
            assert caught.value.code == "unreachable"

    asyncio.run(ask())
    assert len(heard) == times and all(b"/v1/" in request for request in heard)


def test_a_report_that_could_not_be_sent_is_sent_later(doors: Doors) -> None:
    async def ask() -> int:
        async with AsyncRestClient(doors.url) as client:
            served = client._address
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            client._address = served.copy_with(port=server.sockets[0].getsockname()[1])
            server.close()
            await server.wait_closed()
            report = asyncio.ensure_future(client.update([STATE], ([0], [1.0], [True])))
            await asyncio.sleep(0.02)
            client._address = served
            return (await report).logged

    assert asyncio.run(ask()) == 1


def test_a_service_that_says_nothing_is_given_up_in_time() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def ask() -> float:
        options = ClientOptions(timeout=0.2, retries=0)
        async with a_server(say_nothing) as url, AsyncRestClient(url, options) as client:
            began = asyncio.get_running_loop().time()
            with pytest.raises(ServiceError, match="cannot be reached: TimeoutError"):
                await client.predict(STATE)
            return asyncio.get_running_loop().time() - began

    assert 0.2 <= asyncio.run(ask()) < 30.0


def test_a_closed_client_connects_anew(doors: Doors) -> None:
    async def ask() -> None:
        async with AsyncRestClient(doors.url) as client:
            before = await client.predict(STATE)
            await client.close()
            assert await client.predict(STATE) == before

    asyncio.run(ask())
