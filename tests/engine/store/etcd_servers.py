"""Real etcd servers for tests: one member or three, on loopback, stopped and started at will."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


def etcd_program() -> str:
    """The server's program; the test is skipped where there is none."""
    program = os.environ.get("PROREUS_ETCD") or shutil.which("etcd")
    if program is None:
        pytest.skip("needs an etcd server: apt install etcd-server, or PROREUS_ETCD=path/of/etcd")
    return program


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for connection in sockets:
            connection.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@dataclass
class Member:
    """One server and its folder."""

    name: str
    folder: Path
    client: int
    peer: int
    scheme: str = "http"
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.client}"

    def kill(self) -> None:
        """As a power cut does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


@dataclass
class Cluster:
    """Members of one cluster."""

    members: list[Member]
    flags: Sequence[str] = ()
    begun: bool = field(default=False)

    @property
    def endpoints(self) -> str:
        """All members, for an address."""
        return ",".join(member.endpoint for member in self.members)

    def start(self, *members: Member) -> None:
        """Start members, all where none is named, and wait until they serve."""
        for member in members or self.members:
            self._start(member)
        self.begun = True
        for member in members or self.members:
            if member.scheme == "http":
                _await_health(member)

    def _start(self, member: Member) -> None:
        peers = ",".join(f"{one.name}=http://127.0.0.1:{one.peer}" for one in self.members)
        address = f"{member.scheme}://{member.endpoint}"
        peer = f"http://127.0.0.1:{member.peer}"
        with (member.folder.parent / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [
                    etcd_program(),
                    *("--name", member.name, "--data-dir", str(member.folder), "--log-level", "error"),
                    *("--listen-client-urls", address, "--advertise-client-urls", address),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", peers, "--logger", "zap"),
                    *("--initial-cluster-state", "existing" if self.begun else "new"),
                    *self.flags,
                ],
                stdout=log,
                stderr=log,
            )

    def leader(self) -> Member:
        """The member that leads now."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for member in self.members:
                if member.process is None:
                    continue
                with contextlib.suppress(OSError):
                    status = _ask(member, "/v3/maintenance/status", b"{}")
                    if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                        return member
            time.sleep(0.05)
        raise AssertionError("the cluster has no leader")


@contextlib.contextmanager
def etcd_cluster(
    folder: Path, count: int = 1, *, flags: Sequence[str] = (), scheme: str = "http"
) -> Iterator[Cluster]:
    """A running cluster, gone afterwards."""
    etcd_program()
    ports = free_ports(2 * count)
    members = [
        Member(f"m{number}", folder / f"m{number}", ports[2 * number], ports[2 * number + 1], scheme)
        for number in range(count)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(members, flags)
    try:
        cluster.start()
        yield cluster
    finally:
        for member in members:
            member.kill()


def _await_health(member: Member) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if _ask(member, "/health")["health"] == "true":
                return
        time.sleep(0.05)
    raise AssertionError(f"{member.name} did not start: {member.folder.parent / (member.name + '.log')}")


def _ask(member: Member, path: str, data: bytes | None = None) -> Any:
    request = urllib.request.Request(f"http://{member.endpoint}{path}", data=data)
    with urllib.request.urlopen(request, timeout=2) as answer:
        return json.load(answer)
