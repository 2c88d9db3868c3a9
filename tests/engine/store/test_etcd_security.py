"""Encrypted connections, own certificates, users and passwords, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import grpc
import pytest
from aetcd import rpc

from proreus.engine.store.factory import open_store
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import StoreError, Unavailable
from tests.engine.store.certificates import Authority
from tests.engine.store.etcd_servers import Cluster, etcd_cluster
from tests.engine.store.stores import changes, opened, put

QUICK = StoreOptions(timeout=1.0)
PASSWORD = "p@ss:w/ord"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the servers trust."""
    return Authority(tmp_path_factory.mktemp("authority") / "certificates")


@pytest.fixture(scope="module")
def encrypted(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that talks TLS alone, to those who show a certificate."""
    server = authority.sign("server")
    flags = ["--cert-file", server.cert, "--key-file", server.key]
    flags += ["--client-cert-auth", "--trusted-ca-file", server.ca]
    folder = tmp_path_factory.mktemp("encrypted")
    with etcd_cluster(folder, flags=[str(flag) for flag in flags], scheme="https") as cluster:
        yield cluster


def test_tls_with_a_certificate_of_ones_own(encrypted: Cluster, authority: Authority) -> None:
    mine = authority.sign("client")
    query = f"ca={quote(str(mine.ca))}&cert={quote(str(mine.cert))}&key={quote(str(mine.key))}"

    async def story() -> None:
        async with opened(lambda: open_store(f"etcd://{encrypted.endpoints}/tls?{query}")) as store:
            revision = await put(store, "a", b"1")
            assert [change.revision for change in await changes(store, "", revision - 1, 1)] == [revision]

    asyncio.run(story())


def test_a_server_of_another_authority_is_not_believed(encrypted: Cluster, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "other").sign("client")
    address = f"etcd://{encrypted.endpoints}?ca={stranger.ca}&cert={stranger.cert}&key={stranger.key}"
    with pytest.raises(Unavailable, match=f"{encrypted.endpoints} does not answer") as refused:
        asyncio.run(open_store(address, QUICK))
    assert "\n" not in str(refused.value)


def test_who_shows_no_certificate_is_not_let_in(encrypted: Cluster, authority: Authority) -> None:
    for address in (f"etcd://{encrypted.endpoints}?ca={authority.ca}", f"etcd://{encrypted.endpoints}"):
        with pytest.raises(Unavailable):
            asyncio.run(open_store(address, QUICK))


def test_users_and_passwords(tmp_path: Path) -> None:
    async def story() -> None:
        with etcd_cluster(tmp_path) as cluster:
            endpoint = cluster.members[0].endpoint
            await _want_passwords(endpoint)
            for address, words in (
                (f"etcd://{endpoint}", "wants a user and password"),
                (f"etcd://root:wrong@{endpoint}", "refused"),
            ):
                with pytest.raises(StoreError, match=words):
                    await open_store(address, QUICK)
            address = f"etcd://root:{quote(PASSWORD, safe='')}@{endpoint}"
            async with opened(lambda: open_store(address)) as store:
                start = await put(store, "a", b"1")
                watch = asyncio.create_task(changes(store, "", start, 1))
                await asyncio.sleep(0.05)
                # A server that starts again has forgotten its tokens.
                await asyncio.to_thread(cluster.members[0].stop)
                await asyncio.to_thread(cluster.start)
                await store.keep_alive(await store.grant(60))
                revision = await put(store, "a", b"2")
                assert [change.revision for change in await watch] == [revision]

    asyncio.run(story())


async def _want_passwords(endpoint: str) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        auth = rpc.AuthStub(channel)
        await auth.UserAdd(rpc.AuthUserAddRequest(name="root", password=PASSWORD))
        await auth.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
        await auth.AuthEnable(rpc.AuthEnableRequest())
