"""Whether it lives and whether it can serve: two questions, as to Kubernetes' API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from proreus.engine.api.server import health
from proreus.engine.api.server.application import create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.objects.registry import Registry
from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.etcd.store import EtcdStore
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import KeyValue, Store, Unavailable
from tests.engine.api.conftest import Kubectl
from tests.engine.store.etcd_servers import etcd_cluster


class _Ailing(MemoryStore):
    """Answers, refuses, or says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.away, self.asked = False, 0
        self.silence: asyncio.Event | None = None

    async def get(self, key: str) -> KeyValue | None:
        self.asked += 1
        if self.away:
            raise Unavailable("nobody answers")
        if self.silence is not None:
            await self.silence.wait()
        return await super().get(key)


@asynccontextmanager
async def _asking(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Registry(store), ApiOptions())
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client


def test_a_store_that_is_away_is_not_ready_but_alive() -> None:
    async def play() -> None:
        store = _Ailing()
        async with _asking(store) as client:
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.text) == (200, "ok")
            answer = await client.get("/readyz?verbose")
            assert answer.text == "[+]ping ok\n[+]store ok\nreadyz check passed\n"
            store.away = True
            for query in ("", "?verbose"):
                answer = await client.get(f"/readyz{query}")
                assert answer.status_code == 500
                assert answer.text == "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n", (
                    "why is nobody's business who has no token"
                )
            for path in ("/livez", "/healthz"):
                assert (await client.get(path)).text == "ok"
            assert (await client.get("/livez?verbose")).text == "[+]ping ok\nlivez check passed\n"
            store.away = False
            assert (await client.get("/readyz")).status_code == 200

    asyncio.run(play())


def test_a_store_that_says_nothing_is_waited_for_once_however_many_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "STORE_SECONDS", 0.2)

    async def play() -> None:
        store = _Ailing()
        store.silence = asyncio.Event()
        async with _asking(store) as client:
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
            assert {answer.status_code for answer in answers} == {500}
            assert store.asked == 1
            store.silence.set()
            monkeypatch.undo()
            assert (await client.get("/readyz")).text == "ok"

    asyncio.run(play())


def test_an_etcd_that_is_stopped_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        with etcd_cluster(tmp_path) as cluster:
            address = EtcdAddress((cluster.members[0].endpoint,))
            store = await EtcdStore.open(address, StoreOptions(timeout=1.0))
            try:
                async with _asking(store) as client:
                    assert (await client.get("/readyz")).text == "ok"
                    cluster.members[0].kill()
                    assert (await client.get("/readyz")).status_code == 500
                    assert (await client.get("/livez")).text == "ok"
            finally:
                await store.close()

    asyncio.run(play())


def test_kubectl_asks_for_it(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz?verbose").splitlines()[-1] == "readyz check passed"
    assert kubectl("get", "--raw", "/livez") == "ok"
