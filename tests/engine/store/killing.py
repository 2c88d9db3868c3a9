"""A process that writes into a SQLite store until it is killed, and what must be found afterwards.

`python -m tests.engine.store.killing --kills 500` kills as often and tells what was found.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import Delete, Operation, Put, Unchanged
from proreus.engine.store.sqlite.store import SQLiteStore
from tests.engine.store.stores import opened, watching

_WRITERS = 32
_HISTORY = StoreOptions(history=2000)  # small, so that compaction is killed, too
_MOST_WRITES = 1_000
"""Of one life: it ends after a number that is drawn, not after a time; a busy machine writes little in it."""


@dataclass
class Found:
    """Of all kills together."""

    kills: int = 0
    acknowledged: int = 0


async def write(path: Path) -> None:
    """Count up in pairs of keys for ever, telling each acknowledged number: `writer number`."""
    store = await SQLiteStore.open(path, _HISTORY)

    async def count_up(writer: int) -> None:
        left, right, often = f"left/{writer}", f"right/{writer}", f"now-and-then/{writer}"
        entry = await store.get(left)
        number, revision = (int(entry.value), entry.revision) if entry else (0, 0)
        while True:
            number += 1
            value = str(number).encode()
            operations: list[Operation] = [Put(left, value), Put(right, value)]
            operations.append(Put(often, value * 200) if number % 2 else Delete(often))
            done = await store.commit([Unchanged(left, revision)], operations)
            assert done.done
            revision = done.revision
            os.write(1, f"{writer} {number}\n".encode())

    await asyncio.gather(*(count_up(writer) for writer in range(_WRITERS)))


def kill_a_writer(path: Path, rng: random.Random) -> dict[int, int]:
    """Start a writer, kill it at some moment, and read what it had been told is done."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.store.killing", "--write", str(path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child:
        told, wanted = os.read(child.stdout.fileno(), 1 << 20), rng.randrange(1, _MOST_WRITES)
        os.set_blocking(child.stdout.fileno(), False)
        while told.count(b"\n") < wanted and child.poll() is None:  # a full pipe would stop it
            told += _read(child.stdout.fileno())
            time.sleep(0.001)
        time.sleep(rng.random() * 0.005)  # into whatever comes next
        child.send_signal(signal.SIGKILL)
        child.wait()
        while more := _read(child.stdout.fileno()):
            told += more
    lines = told[: told.rfind(b"\n")].decode().splitlines()
    return {int(writer): int(number) for writer, number in (line.split() for line in lines)}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return b""


async def check(path: Path, told: dict[int, int]) -> dict[int, int]:
    """Nothing that was told is lost, no transaction is torn, the history has no hole; what stands."""
    async with opened(lambda: SQLiteStore.open(path, _HISTORY)) as store:
        left = {entry.key.partition("/")[2]: entry for entry in (await store.list("left/")).entries}
        right = {entry.key.partition("/")[2]: entry for entry in (await store.list("right/")).entries}
        often = {entry.key.partition("/")[2]: entry for entry in (await store.list("now-and-then/")).entries}
        assert left.keys() == right.keys()
        for writer, entry in left.items():
            assert (right[writer].value, right[writer].revision) == (entry.value, entry.revision)
            assert (writer in often) == bool(int(entry.value) % 2)
        standing = {int(writer): int(entry.value) for writer, entry in left.items()}
        for writer_number, number in told.items():  # one more may have been done that nobody was told of
            assert number <= standing[writer_number] <= number + 1, (writer_number, number, standing)
        revision = (await store.list("", limit=1)).revision
        after = max(1, revision - _HISTORY.history)
        async with aclosing(watching(store, "", after)) as batches:
            seen: list[int] = []
            while not seen or seen[-1] < revision:
                seen += [change.revision for change in (await anext(batches)).changes]
        assert sorted(set(seen)) == list(range(after + 1, revision + 1))
        assert seen == sorted(seen)
    return standing


def kill_often(path: Path, kills: int, seed: int) -> Found:
    """Kill writers of one file again and again."""
    rng, found, standing = random.Random(seed), Found(), dict[int, int]()
    for _ in range(kills):
        told = kill_a_writer(path, rng)
        found.acknowledged += sum(number - standing.get(writer, 0) for writer, number in told.items())
        standing = asyncio.run(check(path, standing | told))
        found.kills += 1
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.write:
        asyncio.run(write(chosen.write))
    else:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(f"{kill_often(Path(folder) / 'store.db', chosen.kills, chosen.seed)}\n")


if __name__ == "__main__":
    main()
