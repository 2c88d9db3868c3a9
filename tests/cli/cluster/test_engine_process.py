"""The process of `proreus up` and `proreus agent`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.runner import environment

pytest.importorskip("grpc", reason="only gRPC writes of forks")
_FORKS_WHILE_IT_CALLS = """
import asyncio, contextlib, os, tempfile
import proreus.engine.cluster
from proreus.cli.cluster.engine_process import run_until_told
from proreus.cli.signals import StopEvent

class NoEngine(Exception):
    def __init__(self, options):
        raise self

proreus.engine.cluster.Engine = NoEngine
with contextlib.suppress(NoEngine):
    run_until_told(StopEvent(), None, lambda engine: None)

import grpc

async def scene():
    place = f"unix://{tempfile.mkdtemp()}/socket"
    server = grpc.aio.server()
    server.add_insecure_port(place)
    await server.start()
    async with grpc.aio.insecure_channel(place) as channel:
        for _ in range(20):
            with contextlib.suppress(grpc.aio.AioRpcError):
                await channel.unary_unary("/nobody/answers")(b"", timeout=10)
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
    await server.stop(0)

asyncio.run(scene())
"""


def test_grpc_says_nothing_of_programs_that_are_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS_WHILE_IT_CALLS], env=environment(), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
