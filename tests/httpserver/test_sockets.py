"""Small answers leave at once, and who is there has a turn while many come."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from proreus.engine.api.server.options import ApiOptions
from proreus.httpserver.sockets import ACCEPTED_AT_ONCE, listen
from proreus.httpserver.tls_handshakes import Handshakes
from tests.engine.api.live import as_up, live
from tests.httpserver.delays import noted


@pytest.mark.parametrize("tls", [False, True])
def test_small_answers_of_the_engine_leave_at_once(
    monkeypatch: pytest.MonkeyPatch, tls: bool, tmp_path: Path
) -> None:
    delays = noted(monkeypatch)
    with live(as_up(tmp_path) if tls else ApiOptions()) as door, door.client() as client:
        assert client.get("/livez").status_code == 200
    assert delays and all(delays)


class _Counting(Handshakes):
    """Shakes no hands."""

    accepted = 0

    async def _shake(self, accepted: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        self.accepted += 1
        accepted.close()


def test_others_have_their_turn_while_many_connect() -> None:
    """So many are accepted in one round of the loop, however many wait."""

    async def scenario() -> list[int]:
        handshakes = _Counting(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), 1_000)
        counts: list[int] = []
        with ExitStack() as stack:
            listening = stack.enter_context(listen("127.0.0.1", 0))
            for _ in range(100):
                stack.enter_context(socket.create_connection(listening.getsockname()))
            accepting = asyncio.create_task(handshakes.accept(listening, asyncio.Protocol))
            while not counts or counts[-1] < 100:
                await asyncio.sleep(0)
                counts.append(handshakes.accepted)
            accepting.cancel()
        return counts

    counts = asyncio.run(asyncio.wait_for(scenario(), 30))
    rounds = [later - earlier for earlier, later in zip([0, *counts], counts, strict=False)]
    assert max(rounds) <= ACCEPTED_AT_ONCE
