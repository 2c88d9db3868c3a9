"""What befalls a file: kill -9, a full disk, damage, another process, a restart."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import Compacted, Put, StoreError, StoreFull, Unavailable, Unchanged
from proreus.engine.store.sqlite.high_water_mark import StoreLost, acknowledged, mark_of
from proreus.engine.store.sqlite.store import SQLiteStore
from tests.engine.store.killing import kill_often
from tests.engine.store.stores import changes, opened, put, watching


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    found = kill_often(tmp_path / "store.db", kills=20, seed=1)
    assert found.kills == 20
    assert found.acknowledged > 1000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs: run as root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_stops_writes_alone_and_until_there_is_room(small_disk: Path) -> None:
    async def story() -> None:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(2 << 20))
        async with opened(lambda: SQLiteStore.open(small_disk / "store.db")) as store:
            written: list[str] = []
            with pytest.raises(StoreFull):
                for number in range(1000):
                    await put(store, f"k/{number:04}", bytes(16 << 10))
                    written.append(f"k/{number:04}")
            assert len(written) > 10
            small = await asyncio.gather(
                *(put(store, f"s/{number}", bytes(64 << 10)) for number in range(8)), return_exceptions=True
            )
            assert all(isinstance(store_full, StoreFull) for store_full in small)
            before = await store.list("k/")
            assert [entry.key for entry in before.entries] == written
            watch = asyncio.create_task(changes(store, "", before.revision, 1))
            ballast.unlink()
            revision = await put(store, "room", b"again")
            assert revision == before.revision + 1
            assert [change.key for change in await watch] == ["room"]
        async with opened(lambda: SQLiteStore.open(small_disk / "store.db")) as store:
            assert [entry.key for entry in (await store.list("")).entries] == [*written, "room"]

    asyncio.run(story())


def test_what_fits_is_written_though_another_does_not(tmp_path: Path) -> None:
    """The file may not grow beyond some pages, as on a full disk; the two are asked for at once."""

    async def story() -> None:
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db")) as store:
            assert isinstance(store, SQLiteStore)
            store._tables.execute("PRAGMA max_page_count = 40")
            large, small = await asyncio.gather(
                put(store, "large", bytes(1 << 20)), put(store, "small"), return_exceptions=True
            )
            assert isinstance(large, StoreFull)
            assert [entry.key for entry in (await store.list("")).entries] == ["small"]
            assert [change.revision for change in await changes(store, "", 1, 1)] == [small]
            store._tables.execute("PRAGMA max_page_count = 100000")
            await put(store, "large", bytes(1 << 20))

    asyncio.run(story())


def test_a_process_that_holds_the_file_makes_writes_unavailable_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "store.db"
        async with opened(lambda: SQLiteStore.open(path, StoreOptions(timeout=1.0))) as store:
            await put(store, "a", b"1")
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            writes = [asyncio.create_task(put(store, "a", b"2")) for _ in range(3)]
            await asyncio.sleep(0.05)
            assert (await store.list("")).entries
            assert not any(write.done() for write in writes), "the loop is free"
            for write in writes:
                with pytest.raises(Unavailable):
                    await write
            other.execute("ROLLBACK")
            other.close()
            assert await put(store, "a", b"3") > 0

    asyncio.run(story())


def _garbage(path: Path) -> None:
    path.write_bytes(b"nothing of the kind " * 1000)


def _another(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()


def _newer(path: Path) -> None:
    asyncio.run(_fill(path))
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()


def _torn(path: Path) -> None:
    asyncio.run(_fill(path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwritten(path: Path) -> None:
    asyncio.run(_fill(path))
    with path.open("r+b") as file:
        for page in range(2, 40, 3):
            file.seek(page * 4096)
            file.write(b"\xa5" * 2048)


def _folder(path: Path) -> None:
    path.mkdir()


async def _fill(path: Path) -> None:
    async with opened(lambda: SQLiteStore.open(path)) as store:
        await asyncio.gather(*(put(store, f"pods/{number}", bytes(3000)) for number in range(200)))


@pytest.mark.parametrize("damage", [_garbage, _another, _newer, _torn, _overwritten, _folder])
def test_a_file_that_is_no_whole_store_is_refused_in_one_line(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "store.db"
    assert callable(damage)
    damage(path)
    with pytest.raises(StoreError) as refused:
        asyncio.run(SQLiteStore.open(path))
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


_OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from proreus.engine.store.protocol import Put, Unchanged
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.engine.store.sqlite.high_water_mark import StoreLost, acknowledged, mark_of

async def main():
    store = await SQLiteStore.open(Path(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        while True:
            found = await store.get("n")
            more = Put("n", b"%d" % (int(found.value) + 1))
            if (await store.commit([Unchanged("n", found.revision)], [more])).done:
                break
    await store.close()

asyncio.run(main())
"""


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    """Both count up the same number, and a watch here hears of what the other has done."""
    path, each = tmp_path / "store.db", 60

    async def story() -> None:
        async with opened(lambda: SQLiteStore.open(path)) as store:
            start = await put(store, "n", b"0")
            other = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _OTHER_PROCESS, str(path), str(each)
            )
            watch = asyncio.create_task(changes(store, "", start, 2 * each))
            assert await changes(store, "", start, 1)  # the other has begun
            for _ in range(each):
                while True:
                    entry = await store.get("n")
                    assert entry is not None
                    number = str(int(entry.value) + 1).encode()
                    if (await store.commit([Unchanged("n", entry.revision)], [Put("n", number)])).done:
                        break
            assert await other.wait() == 0
            heard = await watch
            values = [int(change.entry.value) for change in heard if change.entry]
            assert values == list(range(1, 2 * each + 1))
            assert [change.revision for change in heard] == list(range(start + 1, start + 2 * each + 1))

    asyncio.run(story())


class Clock:
    """Set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("opened_at", "lives_at", "gone_at"),
    [(105.0, 109.9, 110.1), (3.0, 12.9, 13.1)],
    ids=["the process starts again", "the machine starts again"],
)
def test_a_lease_outlives_a_restart_with_its_remaining_time(
    tmp_path: Path, opened_at: float, lives_at: float, gone_at: float
) -> None:
    async def story() -> None:
        path, clock = tmp_path / "store.db", Clock(100.0)
        async with opened(lambda: SQLiteStore.open(path, clock=clock)) as store:
            await put(store, "leader", b"me", await store.grant(10))
        clock.now = opened_at
        async with opened(lambda: SQLiteStore.open(path, clock=clock)) as store:
            clock.now = lives_at
            await put(store, "other")
            assert await store.get("leader") is not None
            clock.now = gone_at
            taken = await store.commit([Unchanged("leader", 0)], [Put("leader", b"you")])
            assert taken.done

    asyncio.run(story())


def test_a_watch_that_sleeps_through_many_changes_misses_none(tmp_path: Path) -> None:
    async def story() -> None:
        options = StoreOptions(held=50)
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db", options)) as store:
            start = await put(store, "pods/0")
            batches = watching(store, "pods/", start)
            await put(store, "pods/1")
            seen = [change.revision for change in (await anext(batches)).changes]
            last = (await asyncio.gather(*(put(store, f"pods/{number}") for number in range(1500))))[-1]
            while seen[-1] < last:
                seen += [change.revision for change in (await anext(batches)).changes]
            assert seen == list(range(start + 1, last + 1))
            await batches.aclose()

    asyncio.run(story())


def test_history_is_forgotten_by_itself_and_its_room_used_again(tmp_path: Path) -> None:
    async def story() -> None:
        path, options = tmp_path / "store.db", StoreOptions(history=100)
        async with opened(lambda: SQLiteStore.open(path, options)) as store:
            for _ in range(20):
                await asyncio.gather(*(put(store, f"pods/{number}", bytes(2000)) for number in range(100)))
            with pytest.raises(Compacted):
                await changes(store, "", 2, 1)
            revision = (await store.list("")).revision
            assert len(await changes(store, "", revision - 100, 100)) == 100
        assert path.stat().st_size < 2000 * 2000 / 4

    asyncio.run(story())


def test_watches_of_the_present_read_nothing(tmp_path: Path) -> None:
    """One feed for all: a watch that begins now opens no connection, however many there are."""

    async def story() -> None:
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db")) as store:
            assert isinstance(store, SQLiteStore)
            start = await put(store, "pods/0")
            watches = [asyncio.create_task(changes(store, "pods/", start, 10)) for _ in range(200)]
            await asyncio.sleep(0)
            for number in range(10):
                await put(store, f"pods/{number}")
            heard = await asyncio.gather(*watches)
            assert all(one == heard[0] for one in heard)
            assert store._readers == []

    asyncio.run(story())


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SQLiteStore.open(tmp_path / "store.db")
        waiting = asyncio.create_task(put(store, "asked before"))
        await asyncio.sleep(0)
        await store.close()
        assert await waiting > 1
        for use in (store.get("a"), store.list(""), put(store, "a"), store.grant(1)):
            with pytest.raises(StoreError, match="closed"):
                await use

    asyncio.run(story())


def test_nobody_waits_for_a_writer_that_has_ended(tmp_path: Path) -> None:
    """Something that nobody foresaw ends it in the middle of a transaction."""

    async def story() -> None:
        store = await SQLiteStore.open(tmp_path / "store.db")
        await put(store, "before", b"1")

        def fail(*_: object) -> None:
            raise ZeroDivisionError("nobody foresaw this")

        store._tables.next_end = fail  # type: ignore[method-assign]
        asked = [asyncio.create_task(put(store, f"k/{number}", b"2")) for number in range(3)]
        done, waiting = await asyncio.wait(asked, timeout=5)
        assert not waiting
        assert all("the store has stopped" in str(task.exception()) for task in done)
        with pytest.raises(StoreError, match="the store has stopped"):
            await put(store, "after", b"3")
        with pytest.raises(ZeroDivisionError):
            await store.close()
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db")) as again:
            assert [entry.key for entry in (await again.list("")).entries] == ["before"]

    asyncio.run(story())


def _damage_log(path: Path) -> None:
    """The first frame, behind the header of 32 bytes."""
    log = path.with_name(f"{path.name}-wal")
    with log.open("r+b") as file:
        file.seek(32 + 24 + 100)
        file.write(b"\xa5" * 16)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _remove(path: Path) -> None:
    path.unlink()


def _older_copy(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


_KILLED = """
import asyncio, os, sys
from pathlib import Path
from proreus.engine.store.protocol import Put
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.engine.store.sqlite.high_water_mark import StoreLost, acknowledged, mark_of

async def main():
    store = await SQLiteStore.open(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        await store.commit([], [Put(f"k/{number}", bytes(2000))])
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.parametrize("writes", [5, 400], ids=["all in the log", "some in the file"])
@pytest.mark.parametrize("damage", [_damage_log, _empty, _remove, _older_copy])
def test_what_was_acknowledged_and_is_not_there_is_told(tmp_path: Path, damage: object, writes: int) -> None:
    """SQLite opens each of these files without a word."""
    path = tmp_path / "store.db"
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path), str(writes)], check=False)
    assert killed.returncode == -9
    assert callable(damage)
    damage(path)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    for _ in range(2):
        with pytest.raises(StoreLost, match=rf"{writes + 1} revisions|of {writes + 1}") as lost:
            asyncio.run(SQLiteStore.open(path))
        assert "\n" not in str(lost.value)
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert {name: after[name] for name in files} == files, "what may be rescued is left as it was"

    async def accepted() -> None:
        async with opened(lambda: SQLiteStore.open(path, StoreOptions(accept_loss=True))) as store:
            there = await store.list("")
            assert len(there.entries) < writes
            assert there.revision > writes + 1, "no revision is given twice"
            with pytest.raises(Compacted):
                await changes(store, "", writes - 1, 1)
            revision = await put(store, "new")
            assert [change.key for change in await changes(store, "", there.revision, 1)] == ["new"]
        async with opened(lambda: SQLiteStore.open(path)) as store:  # and is whole from now on
            assert (await store.list("")).revision == revision

    asyncio.run(accepted())


def test_a_file_of_a_version_without_marks_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(_fill(path))
    mark_of(path).unlink()
    asyncio.run(_fill(path))
    assert acknowledged(path) == 401
    mark_of(path).write_bytes(b"\xff" * 100)
    asyncio.run(_fill(path))
    assert acknowledged(path) == 601


def test_a_mark_that_cannot_be_written_hinders_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "store.db"
        async with opened(lambda: SQLiteStore.open(path)) as store:
            assert isinstance(store, SQLiteStore)
            os.close(store._mark._handle)
            store._mark._handle = os.open("/dev/full", os.O_RDWR)
            for number in range(5):
                await put(store, f"k/{number}")
        async with opened(lambda: SQLiteStore.open(path)) as store:
            assert len((await store.list("")).entries) == 5

    asyncio.run(story())
