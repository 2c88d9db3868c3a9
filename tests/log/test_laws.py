"""What a durable log promises, kept alike in files, in SQLite and in etcd.

The suite kills two writers of each; PROREUS_KILLS=100 pytest tests/log kills a hundred.
"""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from proreus.engine.store.log.blocking import StoreLog
from proreus.engine.store.log.store_log import LogInStore
from proreus.engine.store.protocol import StoreFull, Unavailable
from proreus.log.files import FileLog
from proreus.log.group_commit import Append
from proreus.log.protocol import DurableLog, LogFull, LogLimits, PartTooLarge
from proreus.model.errors import WorkError
from tests.log.logs import ACK, Log, never, saying, says

PATIENCE = 30.0
KILLS = int(os.environ.get("PROREUS_KILLS", "2"))


@contextmanager
def writing(log: Log, limits: LogLimits | None = None, released: int = 0) -> Iterator[DurableLog]:
    kept = log.place.open(limits or LogLimits(), lambda _: released)
    try:
        yield kept
    finally:
        kept.close()


def logged(log: Log, since: int = 0) -> list[tuple[int, int]]:
    return [(part.number, says(part.payload)) for part in log.read(since)]


def test_parts_come_back_in_order_from_any_record_on(log: Log) -> None:
    records = [1, 3, 1, 5, 2]
    with writing(log) as kept:
        firsts = [kept.append(saying(k), count) for k, count in enumerate(records)]
        assert firsts == [0, 1, 4, 5, 10] and kept.next_number == 12 and kept.trouble == ""
    for since in range(13):
        expected = [k for k, count in enumerate(records) if firsts[k] + count > since]
        assert [what for _, what in logged(log, since)] == expected
    with writing(log) as kept:
        assert kept.append(saying(9)) == 12
    assert [part.records for part in log.read()] == [*records, 1]
    assert not any(part.older for part in log.read())


def test_a_reader_follows_may_be_left_anywhere_and_reads_in_another_process(log: Log) -> None:
    with writing(log, LogLimits(segment_bytes=200)) as kept:
        (name,) = log.place.names()
        reader = pickle.loads(pickle.dumps(log.place)).reader(name)
        assert list(reader.poll()) == []
        seen = []
        for k in range(40):
            kept.append(saying(k))
            if k % 7 == 0:
                for part in reader.poll():
                    seen.append(part.number)
                    if part.number % 5 == 4:
                        break
        seen += [part.number for part in reader.poll()]
        assert seen == list(range(40)) and (reader.damaged, reader.lost) == (0, 0)
        reader.close()


def test_many_threads_and_two_writers_lose_nothing_and_share_no_number(log: Log) -> None:
    logs = [log.place.open(LogLimits(), never) for _ in range(2)]
    promised: list[tuple[str, int, int]] = []

    def work(thread: int) -> None:
        kept = logs[thread % 2]
        for k in range(12):
            what = 100 * thread + k
            promised.append((kept.name, kept.append(saying(what)), what))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for kept in logs:
        kept.close()
    assert len({(name, number) for name, number, _ in promised}) == 72
    assert sorted(logged(log)) == sorted((number, what) for _, number, what in promised)


def test_what_was_acknowledged_survives_kill_9_and_its_numbers_do_not_come_again(log: Log) -> None:
    chance = random.Random(1)
    promised: dict[int, int] = {}
    for life in range(KILLS):
        words = [sys.executable, "-m", "tests.log.logs", log.kind, log.where, str(10_000 * life)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            patience = threading.Timer(PATIENCE, writer.kill)
            patience.start()
            said = os.read(writer.stdout.fileno(), ACK.size)
            patience.cancel()
            time.sleep(chance.uniform(0.0, 0.3))
            writer.kill()
            said += writer.stdout.read()
        assert said, "the writer kept nothing"
        new = dict(ACK.iter_unpack(said[: len(said) // ACK.size * ACK.size]))
        assert not new.keys() & promised.keys()
        promised |= new
        with writing(log) as kept:
            number = kept.append(saying(999))
            assert number > max(promised)
            promised[number] = 999
        present = dict(logged(log))
        assert {number: present.get(number) for number in promised} == promised
    ends = [(part.number, part.end) for part in log.read()]
    assert all(end <= number for (_, end), (number, _) in pairwise(ends))


def test_damage_costs_the_part_that_it_hits_is_counted_and_nothing_else_happens(log: Log) -> None:
    with writing(log) as kept:
        for k in range(9):
            kept.append(saying(0x7ACDEF0123456700 + k), 2)
    log.damage(7)
    (name,) = log.place.names()
    reader = log.place.reader(name)
    assert [part.number for part in reader.poll()] == [0, 2, 4, 8, 10, 12, 14, 16]
    assert (reader.damaged, reader.lost) == (1, 2)
    reader.close()
    log.damage(17)  # the last one
    reader = log.place.reader(name)
    assert sum(1 for _ in reader.poll()) == 7 and reader.damaged == 2 and 3 <= reader.lost <= 4
    reader.close()
    with writing(log) as kept:
        number = kept.append(saying(77))
        assert number >= 18
    assert [part.number for part in log.read()] == [0, 2, 4, 8, 10, 12, 14, number]


def test_a_limit_drops_what_is_not_needed_and_refuses_rather_than_drop_what_is(log: Log) -> None:
    learned = [0]
    most = 20_000
    kept = log.place.open(LogLimits(most // 8, most), lambda _: learned[0])
    (name,) = log.place.names()
    behind = log.place.reader(name)
    assert next(iter(behind.poll()), None) is None
    count = 0
    with pytest.raises(LogFull, match="nothing learned"):
        while count < 100:
            kept.append(saying(count, 900))
            count += 1
    assert 10 < count < 25 and "nothing learned" in kept.trouble
    assert [number for number, _ in logged(log)] == list(range(count))
    learned[0] = 12
    assert kept.trouble == ""
    assert kept.append(saying(77, 900)) == count
    left = [number for number, _ in logged(log)]
    assert 0 < left[0] <= 12 and left == list(range(left[0], count + 1))
    # Who was overtaken goes on with what is left.
    assert [part.number for part in behind.poll()] == left and behind.damaged == 0
    behind.close()
    kept.close()
    with writing(log, LogLimits(most // 8, most), released=500) as kept:
        assert kept.append(saying(1)) == 500  # no number that somebody knows comes again


def _failing(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    """There is no room, wherever this log is kept."""
    if log.kind == "files":

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1, 1, 9, 0, 0, 0, 0, 0, 0, 9)))
        return

    async def none(*_: object) -> bool:
        raise StoreFull("No space left on device")

    monkeypatch.setattr(LogInStore, "_commit", none)


def test_without_room_nothing_is_promised_it_is_said_and_it_heals_by_itself(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(log) as kept:
        kept.append(saying(0))
        with monkeypatch.context() as patched:
            _failing(patched, log)
            for _ in range(2):
                with pytest.raises(WorkError, match="No space left"):
                    kept.append(saying(1))
            assert "No space left" in kept.trouble
        deadline = time.monotonic() + PATIENCE
        while kept.trouble and time.monotonic() < deadline:
            time.sleep(0.05)
        assert kept.trouble == ""  # although nobody has appended
        kept.append(saying(2))
    assert [what for _, what in logged(log)] == [0, 2]
    with pytest.raises(WorkError, match="closed"):
        kept.append(saying(3))


def test_whoever_breaks_leaves_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("files", str(tmp_path))
    with writing(log) as kept:
        assert isinstance(kept, FileLog)

        def breaks(group: list[Append]) -> None:
            raise RuntimeError("it broke")

        with monkeypatch.context() as patched:
            patched.setattr(kept, "_write", breaks)
            group = [Append(saying(1), 1), Append(saying(2), 1)]
            with pytest.raises(RuntimeError, match="it broke"):
                kept._settle(group)
            assert all(append.done and "it broke" in str(append.failure) for append in group)
        kept.append(saying(3))
    assert logged(log) == [(0, 3)]


def test_what_etcd_never_takes_is_refused_by_itself_and_its_neighbours_are_kept(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    endpoint = request.getfixturevalue("etcd").members[0].endpoint
    log = Log("etcd", f"etcd://{endpoint}/{tmp_path.name}")
    with writing(log) as kept:
        assert isinstance(kept, StoreLog)
        group = [Append(saying(k, size), 1) for k, size in enumerate((8, 3 << 20, 8))]
        kept._settle(group)
        assert [isinstance(append.failure, PartTooLarge) for append in group] == [False, True, False]
        with pytest.raises(PartTooLarge, match="3145728 bytes: etcd"):
            kept.append(saying(5, 3 << 20))
        assert kept.trouble == ""
        kept.append(saying(6, 1 << 20))
    assert [what for _, what in logged(log)] == [0, 2, 6]


def test_a_store_that_does_not_say_whether_it_kept_a_part_has_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log("sqlite", f"sqlite:{tmp_path / 'log.db'}")
    with writing(log) as kept:
        assert isinstance(kept, StoreLog) and kept._store is not None
        real = kept._store.commit

        async def silent(*given: object) -> object:
            await real(*given)  # type: ignore[arg-type]
            raise Unavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(kept._store, "commit", silent)
            with pytest.raises(WorkError, match="no answer"):
                kept.append(saying(1), 2)
        assert kept.append(saying(1), 2) == 0
        assert kept.append(saying(1), 2) == 2  # the same again is another
        assert logged(log) == [(0, 1), (2, 1)]
