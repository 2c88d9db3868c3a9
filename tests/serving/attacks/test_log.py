"""The experience log against bad disks and hostile payloads: intact acknowledged records are never lost."""

from __future__ import annotations

import errno
import logging
import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from proreus.log import files
from proreus.log.files import FileLog
from proreus.log.frames import FRAME_BYTES, frame
from proreus.log.protocol import LogLimits
from proreus.log.segments import segments
from proreus.model.errors import WorkError
from proreus.model.experience import Experience
from proreus.model.files import open_private
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.progress import Position, Progress, read_progress, write_progress
from proreus.serving.online.record_format import encode, encode_report
from tests.serving.serving_cases import STATE, an_experience, experience_log, experience_reader, same


def found(folder: Path, since: int = 0) -> dict[int, Experience]:
    return dict(experience_reader(folder, since).poll())


def filled(folder: Path, records: int) -> list[Experience]:
    log = experience_log(folder)
    there = [an_experience(k, 3) for k in range(records)]
    for record in there:
        log.append(record)
    log.close()
    return there


def frame_of(record: Experience) -> int:
    """Bytes that it takes in the log."""
    return FRAME_BYTES + len(encode_report([record]))


def old_frame(number: int, payload: bytes) -> bytes:
    """As the older format has it."""
    checksum = zlib.crc32(payload, zlib.crc32(number.to_bytes(8, "little")))
    return struct.pack("<4sII", b"PXR1", len(payload), checksum) + payload


@pytest.mark.parametrize("last", [170, 499])
def test_seventy_damaged_records_cost_those_seventy_alone_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, last: int
) -> None:
    records = filled(tmp_path, 500)
    (segment,) = segments(tmp_path)
    content = bytearray(segment.path.read_bytes())
    sizes = [frame_of(record) for record in records]
    begin, end = sum(sizes[: last - 69]), sum(sizes[: last + 1])
    content[begin:end] = bytes(end - begin)
    segment.path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        kept = FileLog(tmp_path)
    log = ExperienceLog(kept)
    assert kept.damaged == 1 and "damaged" in caplog.text
    left = [k for k in range(500) if not last - 70 < k <= last]
    assert segment.path.read_bytes() == bytes(content)  # nothing was cut
    number = log.append(an_experience(999))
    log.close()
    assert number > 499  # no number comes again
    back = found(tmp_path)
    assert list(back) == [*left, number]
    assert all(same(back[k], records[k]) for k in left)


@pytest.mark.parametrize("last", [170, 499])
def test_so_do_those_of_an_older_log(tmp_path: Path, last: int) -> None:
    records = [an_experience(k, 3) for k in range(500)]
    frames = [old_frame(k, encode(record)) for k, record in enumerate(records)]
    for k in range(last - 69, last + 1):
        frames[k] = bytes(len(frames[k]))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(frames))
    left = [k for k in range(500) if not last - 70 < k <= last]
    log = experience_log(tmp_path)
    number = log.append(an_experience(999))
    log.close()
    assert path.read_bytes() == b"".join(frames)  # it is read, and never written to
    back = found(tmp_path)
    assert number > 499 and list(back) == [*left, number]
    assert all(same(back[k], records[k]) for k in left)


def test_an_older_log_is_read_and_its_numbers_go_on(tmp_path: Path) -> None:
    records = [an_experience(k, 3, masked=k % 2 == 1) for k in range(8)]
    for first in (0, 5):
        frames = [old_frame(k, encode(records[k])) for k in range(first, (5, 8)[first > 0])]
        (tmp_path / f"{first:020d}.log").write_bytes(b"".join(frames))
    log = experience_log(tmp_path)
    assert log.append(an_experience(8)) == 8
    log.close()
    back = found(tmp_path, 3)
    assert list(back) == list(range(3, 9)) and all(same(back[k], records[k]) for k in range(3, 8))


def disguised(content: bytes) -> Experience:
    """A record whose states are these bytes."""
    padded = content + bytes(-len(content) % (8 * STATE))
    states = np.frombuffer(padded, dtype="<f8").reshape(-1, STATE)
    experience = an_experience(0, len(states))
    return replace(experience, states=states.copy())


def forged(key: bytes, number: int) -> bytes:
    payload = encode_report([replace(an_experience(1, 1), actions=np.array([0]))])
    return frame(key, number, 1, payload)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_frames_inside_a_torn_payload_are_not_found(tmp_path: Path, keep: float) -> None:
    """A report whose doubles look like frames of the log, old and new, torn by a full disk."""
    log = experience_log(tmp_path)
    log.append(an_experience(5))
    (segment,) = segments(tmp_path)
    whole = segment.path.stat().st_size
    frames = [old_frame(k, encode(an_experience(k, 1))) for k in range(1, 62)]
    frames += [forged(bytes(8), k) for k in range(1, 62)]  # a client cannot know the key
    hostile = disguised(b"".join(frames))
    log.append(hostile)
    log.close()
    size = segment.path.stat().st_size
    for cut in (int(whole + keep * (size - whole)), size - 1):
        os.truncate(segment.path, cut)
        assert list(found(tmp_path)) == [0]
    content = bytearray(segment.path.read_bytes())
    content[whole + 8 : whole + 16] = bytes(8)  # and where the head itself is damaged
    segment.path.write_bytes(content)
    assert list(found(tmp_path)) == [0]
    log = experience_log(tmp_path)
    number = log.append(an_experience(6))
    log.close()
    assert list(found(tmp_path)) == [0, number]


def test_a_whole_frame_of_nonsense_is_counted_and_passed_over(tmp_path: Path) -> None:
    log = experience_log(tmp_path)
    log.append(an_experience(5))
    log.close()
    (segment,) = segments(tmp_path)
    out_of_range = replace(an_experience(7, 2), actions=np.array([0, 10**6]))
    with segment.path.open("ab") as file:
        file.write(frame(segment.key, 1, 1, b"no record"))
        file.write(frame(segment.key, 2, 1, encode_report([out_of_range])))
    log = experience_log(tmp_path)
    assert log.append(an_experience(6)) == 3
    log.close()
    reader = experience_reader(tmp_path)
    assert [number for number, _ in reader.poll()] == [0, 3]
    assert (reader.damaged, reader.lost) == (2, 2)


def test_numbers_that_were_learned_do_not_come_again(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    (segment,) = segments(tmp_path)
    segment.path.write_bytes(b"")
    log = experience_log(tmp_path, released=lambda: 5)
    assert log.append(an_experience(9)) == 5
    log.close()


class FullDisk:
    """Lets so many bytes through, then says that there is no room, until it is emptied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        real: Callable[..., Any] = Path.open

        def opened(path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
            file = real(path, mode, *rest, **named)
            return _Limited(self, file) if path.suffix == ".log" and mode in ("xb", "r+b") else file

        def opened_private(path: Path, mode: Literal["ab", "xb"], buffering: int = -1) -> Any:
            file = open_private(path, mode, buffering)
            return _Limited(self, file) if path.suffix == ".log" else file

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(files, "open_private", opened_private)


class _Limited:
    def __init__(self, disk: FullDisk, file: Any) -> None:
        self._disk, self._file = disk, file

    def write(self, data: bytes) -> int:
        let = min(len(data), self._disk.room)
        if not let:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._disk.room -= let
        written: int = self._file.write(data[:let])
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_is_said_and_logging_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, 2000)
    log = experience_log(tmp_path)
    kept = [log.append(an_experience(k, 3)) for k in range(2)]
    for _ in range(3):
        with pytest.raises(WorkError, match=r"^No space left on device$"):
            log.append(an_experience(7, 30))
    assert len(segments(tmp_path)) == 1  # failed attempts leave no files
    # The disk that is really there has room: trouble is over as soon as it has.
    assert log.trouble == ""
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 9, 0, 0, 0, 0, 0, 0, 255)))
    assert log.trouble == "No space left on device"
    disk.room = 1 << 20
    kept.append(log.append(an_experience(8, 30)))
    assert log.trouble == ""
    log.close()
    back = found(tmp_path)
    assert list(back) == kept and same(back[kept[-1]], an_experience(8, 30))


def test_a_reader_that_saw_what_was_taken_back_misses_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = experience_log(tmp_path)
    reader = experience_reader(tmp_path)
    log.append(an_experience(0))
    seen: list[int] = []

    def failing(handle: int) -> None:
        seen.extend(number for number, _ in reader.poll())  # it is whole in the file, and not durable
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(WorkError, match="Input/output error"):
            log.append(an_experience(1))
    after = [log.append(an_experience(k)) for k in (2, 3)]
    seen += [number for number, _ in reader.poll()]
    assert seen[-2:] == after and len(set(seen)) == len(seen)
    log.close()
    assert list(found(tmp_path))[-2:] == after


def test_the_log_is_bounded_drops_what_was_learned_and_refuses_what_was_not(tmp_path: Path) -> None:
    learned = [0]
    one = frame_of(an_experience(0, 10))
    log = experience_log(tmp_path, LogLimits(2 * one, 10 * one), lambda: learned[0])
    numbers = [log.append(an_experience(k, 10)) for k in range(10)]
    with pytest.raises(WorkError, match="nothing learned"):
        log.append(an_experience(99, 10))
    assert "nothing learned" in log.trouble
    assert list(found(tmp_path)) == numbers  # what nobody has learned from is never dropped
    learned[0] = 5
    assert log.trouble == ""
    numbers += [log.append(an_experience(k, 10)) for k in range(10, 13)]
    there = list(found(tmp_path))
    assert there == numbers[-len(there) :] and 2 <= numbers[-len(there)] <= 4
    assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) <= 10 * one
    log.close()
    again = experience_log(tmp_path, LogLimits(2 * one, 10 * one), lambda: learned[0])
    for k in range(50):  # a learner that keeps up: never refused
        learned[0] = again.append(an_experience(k, 10))
    again.close()


def test_a_report_of_many_records_costs_one_sync_and_is_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    real = os.fsync
    log = experience_log(tmp_path)
    log.append(an_experience(0))

    def counted(handle: int) -> None:
        syncs.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fsync", counted)
    assert log.append(*(an_experience(k, 1) for k in range(500))) == 1
    assert len(syncs) == 1
    log.close()
    (segment,) = segments(tmp_path)
    assert list(found(tmp_path)) == list(range(501))
    assert {record.report for _, record in experience_reader(tmp_path).poll()} == {0, 1}
    os.truncate(segment.path, segment.path.stat().st_size - 1)
    assert list(found(tmp_path)) == [0]


def test_a_large_backlog_is_read_one_report_at_a_time(tmp_path: Path) -> None:
    log = experience_log(tmp_path)
    for k in range(200):
        log.append(an_experience(k, 500))
    log.close()
    tracemalloc.start()
    try:
        read = sum(1 for _ in experience_reader(tmp_path).poll())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == 200 and peak < 4 << 20 < sum(path.stat().st_size for path in tmp_path.glob("*.log"))


@pytest.mark.parametrize("content", ["{", "[]", '{"next": -4, "replay_from": 0}', '{"next": 1e400}', "null"])
def test_a_damaged_place_of_the_learner_costs_that_it_begins_anew(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_progress(tmp_path, Progress({"": Position(3, 2), "2": Position(9, 1)}, 4))
    assert read_progress(tmp_path) == Progress({"": Position(3, 2), "2": Position(9, 1)}, 4)
    (tmp_path / "learner.json").write_text(content)
    assert read_progress(tmp_path) == Progress() and "cannot be read" in caplog.text
