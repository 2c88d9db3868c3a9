"""The experience log: what was acknowledged is there, whatever happens to the file behind it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.log.files import FileLog
from proreus.log.protocol import LogLimits
from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.serving.online.experience_log import ExperienceLog
from tests.serving.serving_cases import an_experience, experience_log, experience_reader, same

SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=8)


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "log"


def filled(folder: Path, sizes: list[int], segment_bytes: int = 64 << 20) -> list[Experience]:
    """A closed log of random records, alternately with masks."""
    records = [an_experience(k, size, masked=k % 2 == 1) for k, size in enumerate(sizes)]
    log = experience_log(folder, LogLimits(segment_bytes))
    assert [log.append(record) for record in records] == list(range(len(records)))
    log.close()
    return records


def found(folder: Path, since: int = 0) -> dict[int, Experience]:
    return dict(experience_reader(folder, since).poll())


@settings(max_examples=25)
@given(sizes=SIZES, segment=st.sampled_from([1, 700, 1 << 20]), since=st.integers(0, 9))
def test_records_come_back_bit_for_bit_in_order(sizes: list[int], segment: int, since: int) -> None:
    with a_folder() as folder:
        records = filled(folder, sizes, segment)
        back = found(folder, since)
        assert list(back) == list(range(since, len(records)))
        assert all(same(back[k], records[k]) for k in back)


@settings(max_examples=60)
@given(sizes=SIZES, data=st.data())
def test_a_tail_torn_at_any_byte_costs_nothing_that_was_whole(sizes: list[int], data: st.DataObject) -> None:
    with a_folder() as folder:
        records = filled(folder, sizes[:-1])
        whole = sum(path.stat().st_size for path in folder.glob("*.log"))
        log = experience_log(folder)
        log.append(an_experience(77, sizes[-1]))
        log.close()
        path = next(folder.glob("*.log"))
        torn = data.draw(st.integers(whole, path.stat().st_size - 1), label="torn at")
        os.truncate(path, torn)
        kept = FileLog(folder)
        assert kept.next_number == len(records) and kept.cut == torn - whole
        log = ExperienceLog(kept)
        after = an_experience(99)
        assert log.append(after) == len(records)
        log.close()
        back = found(folder)
        assert list(back) == list(range(len(records) + 1))
        assert all(same(back[k], record) for k, record in enumerate([*records, after]))


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=6), data=st.data())
def test_a_damaged_byte_costs_one_record_at_most(sizes: list[int], data: st.DataObject) -> None:
    with a_folder() as folder:
        records = filled(folder, sizes)
        path = next(folder.glob("*.log"))
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1), label="damaged byte")
        content[place] ^= data.draw(st.integers(1, 255), label="by")
        path.write_bytes(bytes(content))
        back = found(folder)
        assert len(back) == len(records) - 1
        assert all(same(back[k], records[k]) for k in back)
        log = experience_log(folder)  # opening it for writing loses nothing more
        assert log.append(an_experience(99)) >= max(back, default=-1) + 1
        log.close()
        assert set(back) <= set(found(folder))


def test_concurrent_appends_share_syncs_and_get_numbers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = experience_log(tmp_path)
    syncs, slow = [], threading.Event()
    real = os.fsync

    def counted(handle: int) -> None:
        slow.wait(0.002)
        syncs.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fsync", counted)
    numbers: list[int] = []

    def work(thread: int) -> None:
        for k in range(20):
            numbers.append(log.append(an_experience(100 * thread + k, 2)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert sorted(numbers) == list(range(160)) == sorted(found(tmp_path))
    assert len(syncs) < 80  # far fewer than records: a group shares one


def test_a_reader_follows_a_growing_log_over_segments(tmp_path: Path) -> None:
    log = experience_log(tmp_path, LogLimits(600))
    reader = experience_reader(tmp_path)
    assert list(reader.poll()) == []
    seen = []
    for k in range(12):
        log.append(an_experience(k))
        if k % 3 == 0:
            seen += [number for number, _ in reader.poll()]
    seen += [number for number, _ in reader.poll()]
    assert seen == list(range(12)) and len(list(tmp_path.glob("*.log"))) > 3
    assert [number for number, _ in experience_reader(tmp_path, 9).poll()] == [9, 10, 11]
    log.close()


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    log = experience_log(tmp_path)
    with pytest.raises(UsageError, match="another process writes this log"):
        experience_log(tmp_path)
    log.close()
    experience_log(tmp_path).close()


def test_a_disk_that_fails_is_said_nothing_is_acknowledged_and_it_goes_on_when_the_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = experience_log(tmp_path)
    first = an_experience(1)
    log.append(first)

    def broken(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(WorkError, match="No space left"):
            log.append(an_experience(2))
        with pytest.raises(WorkError, match="No space left"):
            log.append(an_experience(3))
    third = an_experience(4)
    log.append(third)
    log.close()
    again = experience_log(tmp_path)
    assert all(
        same(*pair)
        for pair in zip((r for _, r in experience_reader(tmp_path).poll()), (first, third), strict=True)
    )
    again.close()
    with pytest.raises(WorkError, match="closed"):
        again.append(first)
