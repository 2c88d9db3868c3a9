"""A log of each kind for a test, and ways to hurt it.

`python -m tests.log.logs KIND WHERE FIRST` writes until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.store.factory import open_store
from proreus.engine.store.log.places import StorePlace
from proreus.engine.store.log.store_log import part_key
from proreus.engine.store.protocol import Put
from proreus.log.folder import LogFolder
from proreus.log.protocol import LogLimits, LogPlace, Part
from proreus.log.segments import segments

ACK = struct.Struct("<QQ")
"""The number of a part, and what it says."""
_THREADS = 3


@dataclass(frozen=True)
class Log:
    """Where the logs of a test are."""

    kind: str
    where: str

    @property
    def place(self) -> LogPlace:
        """See `LogPlace`."""
        if self.kind == "files":
            return LogFolder(Path(self.where))
        return StorePlace.of(self.where, "m", "owner")

    def damage(self, number: int) -> None:
        """Change a byte in the payload of the part whose last record has that number."""
        if self.kind == "files":
            _damage_file(Path(self.where), number)
        else:
            asyncio.run(_damage_entry(self.where, number))

    def read(self, since: int = 0) -> list[Part]:
        """All parts of all logs."""
        parts: list[Part] = []
        for name in self.place.names():
            reader = self.place.reader(name, since)
            parts += reader.poll()
            reader.close()
        return parts


def never(name: str) -> int:
    """Nothing was learned from."""
    return 0


def _damage_file(folder: Path, number: int) -> None:
    for segment in segments(folder):
        for part in segment.reader().poll():
            if part.end - 1 == number:
                content = segment.path.read_bytes()
                place = content.index(part.payload)
                changed = bytes([content[place] ^ 1])
                segment.path.write_bytes(content[:place] + changed + content[place + 1 :])


async def _damage_entry(address: str, number: int) -> None:
    store = await open_store(address)
    key = part_key("/experience/m/", number)
    entry = await store.get(key)
    assert entry is not None
    await store.commit([], [Put(key, entry.value[:-1] + bytes([entry.value[-1] ^ 1]))])
    await store.close()


def says(payload: bytes) -> int:
    """What a part of these tests says."""
    return int.from_bytes(payload[:8], "little")


def saying(what: int, size: int = 8) -> bytes:
    """Its payload."""
    return what.to_bytes(8, "little") + bytes(size - 8)


def _write(words: Sequence[str]) -> None:
    """Append from several threads, and tell what was acknowledged, until killed."""
    kind, where, first = words
    log = Log(kind, where).place.open(LogLimits(segment_bytes=2000), never)

    def append(thread: int) -> None:
        what = int(first) + thread
        while True:
            os.write(1, ACK.pack(log.append(saying(what, 8 + what % 40), 1 + what % 3), what))
            what += _THREADS

    threads = [threading.Thread(target=append, args=(k,)) for k in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # whoever leaves the main thread takes every pool of threads with it


if __name__ == "__main__":
    _write(sys.argv[1:])
