"""Rates of network: containers send and receive real bytes, and someone outside looks at the clock."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import platform
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.kubelet.bandwidth import not_held
from proreus.engine.runtimes import network_limits
from proreus.engine.runtimes.cgroups import Cgroups, Unwritable
from proreus.engine.runtimes.network_limits import hold_network
from proreus.model.resources import BYTES_PER_MBIT, NETWORK
from tests.engine.runtimes.benches import Place, container, happened, pod_of

RATE = 40
"""Mbit/s."""
AMOUNT = 12_000_000
"""Bytes."""
LEAST = 0.98 * (AMOUNT / (RATE * BYTES_PER_MBIT) - 0.5)
"""Seconds; half a second's worth may go at once. 0.98: on one CPU it took 0.5 % less, why is not known."""
MOST = 6 * LEAST
"""Seconds: held is not stopped, also on busy cores."""


class Peer:
    """Outside of any container: takes all that is sent to it, or sends `AMOUNT`, and measures."""

    def __init__(self, *, sends: bool) -> None:
        self._door, self._sends = socket.create_server(("127.0.0.1", 0)), sends
        self.port = self._door.getsockname()[1]
        self.seconds: list[float] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:  # closed
                return
            began, seen = time.monotonic(), 0
            with connection:
                if self._sends:
                    connection.sendall(bytes(AMOUNT))
                    while fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)) != bytes(4):
                        time.sleep(0.01)  # what lies in our own buffer has not gone
                    connection.shutdown(socket.SHUT_WR)
                while block := connection.recv(1 << 16):
                    seen += len(block)
            if self._sends or seen == AMOUNT:
                self.seconds.append(time.monotonic() - began)

    def close(self) -> None:
        """Takes no more."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


def needs_programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("cgroups need root")
    try:
        cgroups = Cgroups("proreus-probe")
    except Unwritable as error:
        pytest.skip(f"there are no cgroups to make: {error}")
    cgroups.close()
    if cgroups.no_network_limits:
        pytest.skip(cgroups.no_network_limits)


@pytest.mark.parametrize("sends", [True, False], ids=["received", "sent"])
def test_a_container_is_held_to_its_rate_of_network(real_place: Place, sends: bool) -> None:
    if real_place.in_cgroups:
        needs_programs()
    peer = Peer(sends=sends)
    # The client ends its half at once, or the peer would wait for it for ever.
    script = (
        f"test $(busybox nc 127.0.0.1 {peer.port} < /dev/null | wc -c) = {AMOUNT}"
        if sends
        else f"head -c {AMOUNT} /dev/zero | busybox nc 127.0.0.1 {peer.port}"
    )

    async def told(rate: int) -> list[str]:
        async with real_place.bench() as bench:
            limits: dict[str, Any] = {"resources": {"limits": {NETWORK: str(rate)}}} if rate else {}
            end, text = await bench.run(pod_of(container(script, **limits)))
            assert end.exit_code == 0, text
            return [message for _, reason, message in happened(end) if reason == "BandwidthNotEnforced"]

    warnings = asyncio.run(told(RATE))
    if not real_place.in_cgroups:
        assert len(warnings) == 1 and NETWORK in warnings[0], "who cannot hold it says so"
        return
    assert not warnings
    asyncio.run(told(0))
    peer.close()
    held, free = peer.seconds
    assert LEAST <= held <= MOST, f"{AMOUNT} bytes in {held:.1f} s, free {free:.1f} s"
    assert free < LEAST, "without a limit it is faster"
    assert real_place.options is not None
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{real_place.options.own_name}")), "nothing is left"


@pytest.fixture
def cgroup() -> Iterator[Path]:
    needs_programs()
    cgroups = Cgroups(f"proreus-network-{os.getpid()}")
    places = map(Path, cgroups.folders("one"))
    folder = next(place for place in places if (place.parent / "cgroup.controllers").exists())
    folder.mkdir()
    yield folder
    cgroups.destroy("one")
    cgroups.close()
    assert not folder.exists()


def in_cgroup(folder: Path, code: str) -> subprocess.Popen[bytes]:
    enter = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')"
    return subprocess.Popen([sys.executable, "-c", f"import socket, time\n{enter}\n{code}"])


def test_datagrams_are_held_whatever_their_sender_says_of_them(cgroup: Path) -> None:
    hold_network(cgroup, 1_000_000)
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as door:
        door.bind(("127.0.0.1", 0))
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        door.settimeout(10.0)
        code = f"""
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)  # urgent
end = time.monotonic() + 1.0
while time.monotonic() < end:
    out.sendto(bytes(10_000), ("127.0.0.1", {door.getsockname()[1]}))
time.sleep(1.0)
out.sendto(b"end", ("127.0.0.1", {door.getsockname()[1]}))
"""
        with in_cgroup(cgroup, code):
            seen = 0
            while (block := door.recv(20_000)) != b"end":
                seen += len(block)
    assert 400_000 <= seen <= 1_700_000, "a second at a million bytes, and half a one at once"


def test_who_is_held_stays_so_when_the_holder_is_killed(cgroup: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from proreus.engine.runtimes.network_limits import hold_network\n"
            f"hold_network(Path({str(cgroup)!r}), {RATE * BYTES_PER_MBIT})\n"
            "print('held', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    peer = Peer(sends=False)
    code = f"""
with socket.create_connection(("127.0.0.1", {peer.port})) as out:
    out.sendall(bytes({AMOUNT}))
"""
    with in_cgroup(cgroup, code) as sender:
        pass
    assert sender.returncode == 0
    deadline = time.monotonic() + 10.0
    while not peer.seconds and time.monotonic() < deadline:
        time.sleep(0.05)
    peer.close()
    assert LEAST <= peer.seconds[0] <= MOST


def test_what_a_machine_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for controller in ("memory", "cpu", "cpuacct", "pids", "freezer"):
        (tmp_path / controller).mkdir()
        (tmp_path / controller / "cgroup.procs").touch()
    cgroups = Cgroups("parent", tmp_path)
    assert cgroups.no_network_limits == f"there are no cgroups of version 2 at {tmp_path / 'unified'}"
    cgroups.hold_network("one", 1)  # and nothing happens
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").touch()
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    network_limits.no_network_programs.cache_clear()
    why = Cgroups("parent", tmp_path).no_network_limits
    network_limits.no_network_programs.cache_clear()
    assert why == "this machine takes no BPF programs for cgroups (Function not implemented)"
    asking = {"resources": {"limits": {NETWORK: "100"}}}
    (notice,) = not_held(asking, {NETWORK: why})
    assert notice.type == "Warning" and why in notice.message
