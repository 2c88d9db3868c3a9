"""Kill a writer at random moments, and look what it left: `python -m serving.killing FOLDER KILLS SEED`.

One process imports everything once and forks a writer per kill. The writer appends to the experience log
from several threads, publishes model versions in between, and says over a pipe what was acknowledged. After
kill -9 the survivors must hold: `check_survivors` raises AssertionError where they do not. Tests of the
real service call `check_survivors` with what its clients were told.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proreus.log.files import FileLog
from proreus.log.protocol import LogLimits
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.record_format import encode
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer
from tests.serving.serving_cases import a_store, an_experience, experience_log, experience_reader

_ACK = struct.Struct("<QI")  # record number, CRC-32 of its payload
_THREADS = 3
_LONGEST_LIFE = 0.12


@dataclass(frozen=True)
class KillReport:
    """What the kills came to."""

    kills: int
    acknowledged: int
    """Records, over all lives of the writer."""
    cut: int
    """How often a torn tail was found and cut off."""
    versions: int


def check_survivors(log: Path, store: Path, name: str, acknowledged: Mapping[int, int]) -> int:
    """Every acknowledged record (number -> CRC-32 of its payload) is there, every version is complete, one
    of them live. Returns how many records there are."""
    found = {number: zlib.crc32(encode(record)) for number, record in experience_reader(log).poll()}
    assert list(found) == list(range(len(found))), "record numbers have gaps"
    lost = [number for number, crc in acknowledged.items() if found.get(number) != crc]
    assert not lost, f"{len(lost)} acknowledged records are lost or changed, first {lost[:5]}"
    models = ModelStore(store)
    live = models.current(name)
    assert live in [record.version for record in models.versions(name)]
    for record in models.versions(name):
        models.load(name, record.version)  # raises where a file is missing or damaged
    return len(found)


def _write(folder: Path, pipe: int, seed: int) -> None:
    """The life of a writer: append and publish until killed."""
    log = experience_log(folder / "log", LogLimits(segment_bytes=20_000))
    store = ModelStore(folder / "models")

    def append(thread: int) -> None:
        chance = random.Random(seed * 31 + thread)
        while True:
            batch = an_experience(chance.randrange(1 << 30), chance.randrange(1, 40))
            number = log.append(batch)
            os.write(pipe, _ACK.pack(number, zlib.crc32(encode(batch))))

    for k in range(_THREADS):
        threading.Thread(target=append, args=(k,), daemon=True).start()
    publishing = random.Random(seed)
    while True:
        checkpoint = checkpoint_of(fresh_scorer(publishing.randrange(1 << 30)), "none")
        version = store.add("vector", checkpoint, "written while being killed")
        store.promote("vector", version)
        store.gc("vector", keep=3)


def kill_writers(folder: Path, kills: int, seed: int) -> KillReport:
    """Fork, let live for a random moment, kill -9, look at what is left; as often as asked."""
    a_store(folder / "models")
    chance = random.Random(seed)
    acknowledged: dict[int, int] = {}
    cut = 0
    for life in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                _write(folder, writing, seed * 1000 + life)
            finally:
                os._exit(1)
        os.close(writing)
        first = os.read(reading, _ACK.size)  # it is at work
        time.sleep(chance.random() * _LONGEST_LIFE)
        os.kill(child, signal.SIGKILL)
        said = first
        while piece := os.read(reading, 1 << 16):
            said += piece
        os.close(reading)
        os.waitpid(child, 0)
        assert len(said) % _ACK.size == 0 and len(first) == _ACK.size, "the writer died by itself"
        acknowledged |= dict(_ACK.iter_unpack(said))
        log = FileLog(folder / "log")  # what the next life does first
        cut += log.cut > 0
        log.close()
        check_survivors(folder / "log", folder / "models", "vector", acknowledged)
    versions = ModelStore(folder / "models").versions("vector")[-1].version
    return KillReport(kills, len(acknowledged), cut, versions)


if __name__ == "__main__":
    print(kill_writers(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))  # noqa: T201
