"""Logs that are put aside while somebody begins to read them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from proreus.engine.runtimes.logs import read
from proreus.engine.runtimes.protocol import LogWanted


@pytest.mark.parametrize("tail", [None, 0, 3])
def test_a_log_that_is_put_aside_meanwhile_is_read_all_the_same(tmp_path: Path, tail: int | None) -> None:
    log, stop = tmp_path / "log", threading.Event()
    log.touch()

    def write() -> None:
        while not stop.is_set():
            log.write_bytes(b"2026-11-16T00:00:00.000000000Z stdout F x\n" * 10)
            if (tmp_path / "log.1").exists():
                (tmp_path / "log.1").replace(tmp_path / "log.2")
            log.replace(tmp_path / "log.1")

    async def look() -> None:
        for _ in range(200):
            async for line in read(log, LogWanted("main", tail=tail), lambda: True):
                assert line == b"x\n"

    writer = threading.Thread(target=write)
    writer.start()
    try:
        asyncio.run(look())
    finally:
        stop.set()
        writer.join()
