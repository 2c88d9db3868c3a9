"""A service under attack: an honest client beside it, its memory watched, raw sockets to attack it with."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import environment
from tests.serving.service_process import ServiceProcess

FULL = bool(os.environ.get("PROREUS_ATTACKS"))
"""Attacks at full size, and the honest client's answers held to the promise: see docs/security.md."""
PROMISED_SECONDS = 0.1 if FULL else 2.0
MOST_MEMORY = 1 << 30
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_ROOT = Path(__file__).resolve().parents[3]


def size(full: int, small: int) -> int:
    """How often something is done."""
    return full if FULL else small


class Attacked:
    """A service process, and what it goes through."""

    def __init__(self, service: ServiceProcess) -> None:
        self.service, self.rest, self.grpc = service, service.rest, service.grpc

    def memory(self) -> int:
        """Resident bytes now."""
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    @contextlib.contextmanager
    def beside_an_honest_client(self, door: str = "rest", *, least: float = 1.0) -> Iterator[None]:
        """Attack within; afterwards the honest client must have been served, and memory been kept."""
        words = (sys.executable, "-m", "tests.serving.attacks.honest", door)
        port = self.grpc if door == "grpc" else self.rest
        before, ended, peak = self.memory(), threading.Event(), [0]

        def watch() -> None:
            while not ended.wait(0.02):
                peak[0] = max(peak[0], self.memory())

        honest = subprocess.Popen(
            (*words, str(port)),
            cwd=_ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert honest.stdout is not None and honest.stdin is not None
        watching = threading.Thread(target=watch)
        try:
            assert honest.stdout.readline() == "asking\n"
            watching.start()
            began = time.monotonic()
            yield
            time.sleep(max(0.0, least - (time.monotonic() - began)))
        finally:
            said, _ = honest.communicate(timeout=60)
            ended.set()
            if watching.ident is not None:
                watching.join()
        assert self.service.process.poll() is None, "the service ended"
        figures = json.loads(said)
        if FULL:
            grown = (peak[0] - before) >> 20
            message = f"{door}: {figures}, memory {peak[0] >> 20} MiB at most, {grown} MiB more"
            sys.stdout.write(f"\n{message}\n")
        assert figures["wrongs"] == 0, figures
        assert figures["answers"] > (5 if FULL else 0), figures
        assert figures["p99"] < PROMISED_SECONDS, figures
        assert peak[0] < MOST_MEMORY, f"{peak[0] >> 20} MiB"

    @contextlib.contextmanager
    def plain(self) -> Iterator[socket.socket]:
        """A connection to the REST door."""
        with socket.create_connection(("127.0.0.1", self.rest), timeout=30) as connected:
            yield connected


def heard(connection: socket.socket, *, seconds: float = 30.0) -> bytes:
    """All that comes until the connection is closed."""
    connection.settimeout(seconds)
    said = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65_536):
            said += piece
    return said


def sent(connection: socket.socket, data: bytes) -> bool:
    """Whether all of it could be sent before the connection was closed."""
    try:
        connection.sendall(data)
    except (ConnectionError, TimeoutError):
        return False
    return True


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
