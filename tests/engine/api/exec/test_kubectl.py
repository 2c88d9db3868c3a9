"""kubectl, unchanged: exec, attach, cp and port-forward, by WebSocket or SPDY as its version speaks them."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.engine.api.conftest import Kubectl
from tests.engine.api.exec.conftest import Talking
from tests.engine.api.exec.sockets import until_closed

_PATIENCE = 30.0


def test_exec_keeps_output_errors_and_the_exit_code_apart(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "answering", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr.startswith(b"err\n") and b"exit code 3" in done.stderr


def test_exec_hands_input_over_to_its_end(kubectl: Kubectl) -> None:
    given = bytes(range(256)) * 4096
    done = kubectl.run("exec", "-i", "answering", "--", "cat", given=given)
    assert (done.returncode, done.stdout) == (0, given)


def test_exec_in_a_terminal_has_its_size_and_ends_with_its_code(kubectl: Kubectl) -> None:
    started, ours = kubectl.in_a_terminal(
        *("exec", "-it", "answering", "--", "sh", "-c"),
        'until [ "$(stty size)" = "31 97" ]; do sleep 0.05; done; read w; echo "<$w>"; exit 5',
    )
    try:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        started.send_signal(28)  # SIGWINCH: the terminal does not control it
        os.write(ours, b"typed\n")
        _read_until(ours, b"<typed>")
        assert started.wait(_PATIENCE) == 5
    finally:
        started.kill()
        started.wait()
        os.close(ours)


def _read_until(fd: int, word: bytes) -> bytes:
    text, end = b"", time.monotonic() + _PATIENCE
    while word not in text:
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"after {_PATIENCE:g} s it says {text!r}"
        text += os.read(fd, 4096)
    return text


def test_exec_says_what_is_wrong(kubectl: Kubectl) -> None:
    assert "not found" in kubectl("exec", "nobody", "--", "true", fails=True)
    assert "other is not valid for pod" in kubectl(
        "exec", "answering", "-c", "other", "--", "true", fails=True
    )
    assert "does not have a host assigned" in kubectl("exec", "nowhere", "--", "true", fails=True)
    assert "does not have a host assigned" in kubectl("logs", "nowhere", fails=True)


def test_attach_talks_to_the_container_itself(kubectl: Kubectl) -> None:
    started = kubectl.start("attach", "-i", "answering")
    assert started.stdin is not None and started.stdout is not None
    try:
        started.stdin.write("hello\n")
        started.stdin.flush()
        lines: list[str] = []
        while "got hello\n" not in lines or "err hello\n" not in lines:
            line = started.stdout.readline()
            assert line, lines
            lines.append(line)
    finally:
        started.kill()
        started.communicate()


@pytest.mark.skipif(shutil.which("tar") is None, reason="kubectl cp needs tar in the container")
def test_cp_carries_files_both_ways(kubectl: Kubectl, folder: Path) -> None:
    content = os.urandom(300_000)
    (folder / "here").write_bytes(content)
    kubectl("cp", str(folder / "here"), f"answering:{folder}/there")
    assert (folder / "there").read_bytes() == content
    kubectl("cp", f"answering:{folder}/there", str(folder / "back"))
    assert (folder / "back").read_bytes() == content


def test_port_forward_carries_connections_side_by_side(kubectl: Kubectl, talking: Talking) -> None:
    started = kubectl.start("port-forward", "pod/shouting", f":{talking.port}")
    try:
        port = _forwarded_port(started)
        connections = [socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) for _ in range(3)]
        for number, connection in enumerate(connections):
            connection.sendall(b"word %d " % number * 20_000)
            connection.shutdown(socket.SHUT_WR)
        for number, connection in enumerate(connections):
            assert until_closed(connection) == b"WORD %d " % number * 20_000
    finally:
        started.kill()
        started.communicate()


def test_port_forward_tells_of_a_port_where_nobody_listens(kubectl: Kubectl) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        started = kubectl.start("port-forward", "pod/shouting", f":{taken.getsockname()[1]}")
        try:
            with socket.create_connection(("127.0.0.1", _forwarded_port(started)), timeout=_PATIENCE) as ours:
                assert until_closed(ours) == b""
            assert started.stdout is not None
            while "connecting to port" not in (line := started.stdout.readline()):
                assert line
        finally:
            started.kill()
            started.communicate()


def _forwarded_port(started: subprocess.Popen[str]) -> int:
    assert started.stdout is not None
    line = started.stdout.readline()
    assert line.startswith("Forwarding from 127.0.0.1:"), line
    return int(line.split(":")[1].split()[0])
