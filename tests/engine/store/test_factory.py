"""Addresses of stores: those that can be meant, and one line for those that cannot."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from proreus.engine.store.etcd.address import EtcdAddress, parse_address
from proreus.engine.store.factory import open_store
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Put, StoreError
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.model.errors import UsageError
from tests.engine.store.stores import opened


def test_each_kind_by_its_address(tmp_path: Path) -> None:
    async def kind(address: str) -> type:
        async with opened(lambda: open_store(address)) as store:
            return type(store)

    assert asyncio.run(kind("memory:")) is MemoryStore
    for address in (f"sqlite:{tmp_path}/a.db", f"sqlite://{tmp_path}/b.db", f"{tmp_path}/deep/folder/c.db"):
        assert asyncio.run(kind(address)) is SQLiteStore
    names = {path.name for path in tmp_path.rglob("*.db")}
    assert names == {"a.db", "b.db", "c.db"}


def test_a_new_file_is_its_owners_alone_and_one_that_is_there_stays_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "private.db"

    async def modes() -> dict[str, int]:
        async with opened(lambda: open_store(f"sqlite:{path}")) as store:
            await store.commit([], [Put("a", b"1")])
            return {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}

    before = os.umask(0o022)
    try:
        names = ("private.db", "private.db-wal", "private.db-shm", "private.db.mark")
        assert asyncio.run(modes()) == dict.fromkeys(names, 0o600)
        path.chmod(0o640)
        assert asyncio.run(modes()) == dict.fromkeys(names, 0o640)
        assert not caplog.records, "a group may share it"
        path.chmod(0o644)
        assert asyncio.run(modes()) == dict.fromkeys(names, 0o644)
        (message,) = caplog.messages
        assert message == (
            f"every user of this machine may read {path}, with Secrets of a cluster in it: chmod o= {path}*"
        )
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory:there", "has no place"),
        ("sqlite:", "no path"),
        ("", "no path"),
        ("postgres://host/db", "unknown kind 'postgres'"),
        ("etcd://", "no host:port"),
        ("etcd://host", "'host' is no host:port"),
        ("etcd://host:0", "no host:port"),
        ("etcd://host:70000", "no host:port"),
        ("etcd://a:1,,b:2", "'' is no host:port"),
        ("etcd://user@a:1", "a user needs a password"),
        ("etcd://a:1?cafile=x", "unknown option 'cafile'"),
        ("etcd://a:1?ca=/no/such/file", "there is no file '/no/such/file'"),
        (f"etcd://a:1?ca={__file__}&ca={__file__}", "stands twice"),
        (f"etcd://a:1?ca={__file__}&cert={__file__}", "cert and key belong together"),
        (f"etcd://a:1?cert={__file__}&key={__file__}", "without the ca"),
        ("etcd://a:1#there", "nothing can follow"),
    ],
)
def test_what_cannot_be_meant_is_one_line(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        asyncio.run(open_store(address))
    assert "\n" not in str(refused.value)


def test_a_password_is_never_shown() -> None:
    address = parse_address("etcd://me:s%65cret@a:1,[::1]:2379/my/root/")
    assert address == EtcdAddress(("a:1", "[::1]:2379"), "/my/root/", "me", "secret")
    assert "secret" not in repr(address)
    with pytest.raises(UsageError) as refused:
        parse_address("etcd://me:secret@a")
    assert "secret" not in str(refused.value)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Not a directory"):
        asyncio.run(open_store(f"{tmp_path}/file/deep/store.db"))
