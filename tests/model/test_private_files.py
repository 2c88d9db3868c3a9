"""What services keep is their owner's alone, whatever the umask; what was there keeps its mode."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest

from proreus.engine.api.server.audit import AuditLog
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.log.files import FileLog
from proreus.model.files import make_folder, open_private, write_atomically, write_together
from proreus.serving.scaler.shadow_log import ShadowLog


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Nothing is taken from the modes that are asked for."""
    before = os.umask(0)
    yield
    os.umask(before)


def public(folder: Path) -> list[str]:
    """What others may touch in a folder, and the folder itself."""
    inside = (folder, *folder.rglob("*"))
    return [f"{path.name} {S_IMODE(path.stat().st_mode):o}" for path in inside if path.stat().st_mode & 0o077]


def test_folders_are_private_all_the_way_and_those_that_stood_stay(tmp_path: Path) -> None:
    standing = tmp_path / "standing"
    standing.mkdir(mode=0o755)
    make_folder(standing / "a" / "b", private=True)
    make_folder(standing / "a" / "b", private=True)
    make_folder(standing, private=True)
    assert S_IMODE(standing.stat().st_mode) == 0o755
    assert public(standing / "a") == []


def test_files_are_private_from_the_first_moment(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    write_atomically(tmp_path / "one", b"x", private=True)
    write_together({tmp_path / "two": b"x", tmp_path / "three": b"x"}, private=True)
    for _ in range(2):
        with open_private(tmp_path / "four", "ab") as file:
            file.write(b"x")
    assert public(tmp_path) == [] and (tmp_path / "four").read_bytes() == b"xx"
    with pytest.raises(FileExistsError):
        open_private(tmp_path / "four", "xb")
    write_atomically(tmp_path / "result", b"x")
    assert S_IMODE((tmp_path / "result").stat().st_mode) == 0o666, "a result is as any new file"


def test_a_log_and_a_shadow_and_an_audit_are_private(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "kept" / "experience")
    log.append(b"x")
    log.close()
    ShadowLog(tmp_path / "kept" / "shadow" / "log", 100).close()
    AuditLog(tmp_path / "kept" / "audit" / "log").close()
    assert public(tmp_path / "kept") == []


def test_a_database_is_private(tmp_path: Path) -> None:
    async def open_and_close() -> None:
        store = await SQLiteStore.open(tmp_path / "kept" / "here" / "cluster.db")
        try:
            assert public(tmp_path / "kept") == []
        finally:
            await store.close()

    asyncio.run(open_and_close())
    assert public(tmp_path / "kept") == []
