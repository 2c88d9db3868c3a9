"""A server that ends ends its streams, and logs no fault of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from tests.engine.api.quiet_logs import QuietLogs

_END = b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("path", "ends_well"),
    [
        ("/v1/events?pods=true", True),
        ("/api/v1/pods?watch=1", True),
        ("/api/v1/namespaces/default/pods/quiet/log?follow=1", False),
    ],
)
def test_a_stream_ends_with_its_server(path: str, ends_well: bool, caplog: pytest.LogCaptureFixture) -> None:
    """What waits for no end of the server is cut off after a while."""

    async def run() -> tuple[bytes, float]:
        registry = Registry(MemoryStore())
        await registry.prepare()
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await registry.create(POD, {"metadata": {"name": "quiet"}, "spec": spec})
        options = ApiOptions()
        server = ApiServer(create_app(registry, options, ApiDependencies(logs=QuietLogs())), options)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0.5)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await server.stop()
        lasted = loop.time() - began
        rest = await reader.read()
        writer.close()
        return rest, lasted

    rest, lasted = asyncio.run(run())
    assert rest.endswith(_END) == ends_well
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record for record in told if record.exc_info] == []
    if ends_well:
        assert told == [] and lasted < 2.0
