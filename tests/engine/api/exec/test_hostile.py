"""Streams that clients ask for badly, break off, or misuse; who may not have one; what is written down."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from proreus.engine.api.server.authentication import Role, read_tokens
from proreus.engine.api.server.options import ApiLimits, ApiOptions
from tests.certificates import make_certificate
from tests.engine.api.exec.conftest import Talking, run_pod
from tests.engine.api.exec.sockets import until_closed
from tests.engine.api.live import Live, live

_POD = "/api/v1/namespaces/default/pods/"
_EXEC = f"{_POD}answering/exec?stdin=1&stdout=1&stderr=1&command=cat"
_KEY = base64.b64encode(b"0123456789abcdef").decode()
_WEBSOCKET = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": _KEY,
    "sec-websocket-protocol": "v5.channel.k8s.io",
}
_SPDY = {"connection": "Upgrade", "upgrade": "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io"}
_PATIENCE = 30.0


def _asked(door: Live, path: str, headers: dict[str, str], method: str = "GET") -> socket.socket:
    """A connection on which this was asked."""
    connection = socket.create_connection(("127.0.0.1", door.port), timeout=_PATIENCE)
    _ask(connection, door, path, headers, method)
    return connection


def _ask(
    connection: socket.socket, door: Live, path: str, headers: dict[str, str], method: str = "GET"
) -> None:
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{door.port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def _head(connection: socket.socket) -> str:
    """As far as the empty line, and not a byte more."""
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        data = connection.recv(1)
        assert data, found
        found += data
    return found.decode()


def _frame(opcode: int, data: bytes, *, fin: bool = True, masked: bool = True) -> bytes:
    """A frame of a WebSocket's client."""
    size = len(data)
    told = bytes((size,)) if size < 126 else b"\x7e" + struct.pack("!H", size)
    first = (0x80 if fin else 0) | opcode
    mask = b"\0\0\0\0" if masked else b""
    return bytes((first, told[0] | (0x80 if masked else 0))) + told[1:] + mask + data


def _message(connection: socket.socket) -> tuple[int, bytes]:
    """A frame of the server's: opcode and content."""
    head = _exactly(connection, 2)
    size = head[1]
    if size == 126:
        size = struct.unpack("!H", _exactly(connection, 2))[0]
    return head[0] & 0xF, _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = connection.recv(size - len(found))
        assert data, found
        found += data
    return found


def _talk(talking: Talking, path: str = _EXEC) -> socket.socket:
    """A WebSocket with a command at its end."""
    connection = _asked(talking.door, path, _WEBSOCKET)
    assert _head(connection).startswith("HTTP/1.1 101 ")
    assert _message(connection) == (2, b"\x03")
    return connection


def test_fragments_and_pings_and_the_end_of_input(talking: Talking) -> None:
    connection = _talk(talking)
    connection.sendall(_frame(2, b"\0hel", fin=False) + _frame(9, b"are you there") + _frame(0, b"lo"))
    assert _message(connection) == (10, b"are you there")
    assert _message(connection) == (2, b"\x01hello")
    connection.sendall(_frame(2, b"\xff\0"))
    opcode, status = _message(connection)
    assert (opcode, status[0], json.loads(status[1:])["status"]) == (2, 3, "Success")
    assert _message(connection)[0] == 8
    connection.close()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (_frame(2, b"\x00x", masked=False), 1002),
        (_frame(3, b"\x00x"), 1002),
        (_frame(0, b"\x00x"), 1002),
        (bytes((0x82, 0xFF)) + struct.pack("!Q", 2**40) + b"\0\0\0\0", 1009),
        (bytes((0x82, 0xFF)) + struct.pack("!Q", 2**63 + 1) + b"\0\0\0\0", 1009),
        (_frame(2, b"\x07x"), 1008),
        (_frame(2, b"\x03{}"), 1008),
        (_frame(9, b"x" * 126), 1002),
        (bytes((0xF2, 0x81)) + b"\0\0\0\0x", 1002),
    ],
    ids=[
        "unmasked",
        "opcode",
        "continued",
        "huge",
        "negative",
        "channel",
        "error-channel",
        "long-ping",
        "reserved",
    ],
)
def test_a_client_that_breaks_the_rules_is_told_and_cut_off(talking: Talking, data: bytes, code: int) -> None:
    connection = _talk(talking)
    connection.sendall(data)
    opcode, told = _message(connection)
    assert (opcode, struct.unpack("!H", told[:2])[0]) == (8, code)
    connection.shutdown(socket.SHUT_WR)
    until_closed(connection)
    _no_command_is_left(talking)


def test_random_bytes_do_no_harm(talking: Talking) -> None:
    for _ in range(5):
        connection = _talk(talking)
        connection.sendall(os.urandom(5000))
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)
        spdy = _asked(talking.door, _EXEC, _SPDY, "POST")
        assert _head(spdy).startswith("HTTP/1.1 101 ")
        spdy.sendall(os.urandom(5000))
        spdy.shutdown(socket.SHUT_WR)
        until_closed(spdy)
    _no_command_is_left(talking)


def test_a_client_that_goes_takes_its_command_along(talking: Talking) -> None:
    connection = _talk(talking)
    connection.close()
    _no_command_is_left(talking)


def test_a_client_that_goes_while_its_input_is_not_taken_is_noticed(
    talking: Talking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proreus.engine.api.exec.session.PING_SECONDS", 0.1)
    connection = _talk(talking, _EXEC.replace("command=cat", "command=sleep&command=765"))
    connection.settimeout(1.0)
    with pytest.raises(TimeoutError):
        while True:
            connection.sendall(_frame(2, b"\0" + b"x" * 60_000))
    connection.close()
    _no_command_is_left(talking)


def _no_command_is_left(talking: Talking) -> None:
    """No stream is counted any more."""
    end = time.monotonic() + _PATIENCE
    with talking.door.client() as client:
        while "proreus_api_streams 0.0\n" not in client.get("/v1/metrics").text:
            assert time.monotonic() < end, client.get("/v1/metrics").text
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("path", "headers", "says"),
    [
        (_EXEC, {}, "Upgrade request required"),
        (_EXEC, {"connection": "Upgrade", "upgrade": "h2c"}, "Upgrade request required"),
        (_EXEC, _WEBSOCKET | {"sec-websocket-protocol": "chat"}, "supported values"),
        (_EXEC, _WEBSOCKET | {"sec-websocket-key": "short"}, "16 bytes"),
        (_EXEC, _WEBSOCKET | {"sec-websocket-version": "8"}, "version 13"),
        (_EXEC, _SPDY | {"x-stream-protocol-version": "v1.channel.k8s.io"}, "supported values"),
        (f"{_POD}answering/exec?command=cat", _WEBSOCKET, "at least 1 of stdin"),
        (f"{_POD}answering/exec?stdout=1", _WEBSOCKET, "command: Required"),
        (f"{_POD}answering/exec?stdout=1&command=%00", _WEBSOCKET, "without NUL"),
        (f"{_POD}answering/exec?stdout=perhaps&command=x", _WEBSOCKET, "neither true nor false"),
        (f"{_POD}shouting/attach?stdin=1", _WEBSOCKET, "takes no input"),
        (f"{_POD}nowhere/attach?stdout=1", _WEBSOCKET, "does not have a host assigned"),
        (
            f"{_POD}shouting/portforward?ports=0",
            _WEBSOCKET | {"sec-websocket-protocol": "v4.channel.k8s.io"},
            "1 to 65535",
        ),
        (
            f"{_POD}shouting/portforward?ports=" + ",".join(["80"] * 40),
            _WEBSOCKET | {"sec-websocket-protocol": "v4.channel.k8s.io"},
            "1 to 16 numbers",
        ),
    ],
)
def test_what_is_asked_badly_is_a_status(
    talking: Talking, path: str, headers: dict[str, str], says: str
) -> None:
    connection = _asked(talking.door, path, headers or {"connection": "close"})
    answer = until_closed(connection)
    connection.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), head
    assert says in json.loads(body)["message"]


def test_bytes_before_the_answer_end_the_connection(talking: Talking) -> None:
    connection = _asked(talking.door, _EXEC, _WEBSOCKET)
    connection.sendall(_frame(2, b"\0early") * 1000)
    assert b"early" not in until_closed(connection)
    _no_command_is_left(talking)


_TOKENS = {role: f"{role.value}-0123456789abcdef" for role in Role}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Path]]:
    """A door with tokens, on whose simulated nodes a pod runs; two streams at once."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{token},{role.value}-1,{role.value}\n" for role, token in _TOKENS.items()))
    tokens.chmod(0o600)
    limits = ApiLimits(streams=2)
    options = ApiOptions(tokens=read_tokens(tokens), audit=folder / "audit.jsonl", limits=limits)
    with live(options, agents=True) as door:
        with door.client(authorization=f"Bearer {_TOKENS[Role.ADMIN]}") as client:
            run_pod(client, "quiet", ["sleep"])
        yield door, folder / "audit.jsonl"


def _as(role: Role) -> dict[str, str]:
    return {"authorization": f"Bearer {_TOKENS[role]}"}


@pytest.mark.parametrize("part", ["exec?command=ls&stdout=1", "attach?stdout=1", "portforward"])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.AGENT])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_an_admin_may_open_a_stream(
    guarded: tuple[Live, Path], part: str, role: Role, method: str
) -> None:
    headers = (_WEBSOCKET if method == "GET" else _SPDY) | _as(role)
    answer = until_closed(_asked(guarded[0], f"{_POD}quiet/{part}", headers, method))
    assert answer.startswith(b"HTTP/1.1 403 ") and b"pods/" in answer


def test_nobody_and_pages_of_other_sites_are_refused(guarded: tuple[Live, Path]) -> None:
    path = f"{_POD}quiet/attach?stdout=1"
    assert until_closed(_asked(guarded[0], path, _WEBSOCKET)).startswith(b"HTTP/1.1 401 ")
    for page in (
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
    ):
        answer = until_closed(_asked(guarded[0], path, _WEBSOCKET | _as(Role.ADMIN) | page))
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ")), answer


def test_streams_are_counted_and_written_down(guarded: tuple[Live, Path]) -> None:
    door, audit = guarded
    path, headers = f"{_POD}quiet/portforward", _SPDY | _as(Role.ADMIN)
    headers = headers | {"x-stream-protocol-version": "portforward.k8s.io"}
    held = [_asked(door, path, headers, "POST") for _ in range(2)]
    for connection in held:
        assert _head(connection).startswith("HTTP/1.1 101 ")
    refused = until_closed(_asked(door, path, headers, "POST"))
    assert refused.startswith(b"HTTP/1.1 429 ")
    for connection in held:
        connection.close()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    written = [line for line in lines if line["path"] == path and line["status"] == 101]
    assert [(line["user"], line["verb"]) for line in written] == [("admin-1", "create")] * 2


def test_a_stream_in_which_nothing_moves_is_ended() -> None:
    with live(ApiOptions(limits=ApiLimits(stream_idle_seconds=0.2)), agents=True) as door:
        with door.client() as client:
            run_pod(client, "quiet", ["sleep"])
        headers = _SPDY | {"x-stream-protocol-version": "portforward.k8s.io"}
        connection = _asked(door, f"{_POD}quiet/portforward", headers, "POST")
        assert _head(connection).startswith("HTTP/1.1 101 ")
        assert until_closed(connection) == b""


def test_streams_go_over_tls_and_end_with_the_server(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=certificate)
    with live(ApiOptions(credentials=(certificate, key)), agents=True) as door:
        with httpx.Client(base_url=f"https://127.0.0.1:{door.port}", verify=trusted) as client:
            run_pod(client, "quiet", ["sleep"])
        plain = socket.create_connection(("127.0.0.1", door.port), timeout=_PATIENCE)
        connection = trusted.wrap_socket(plain, server_hostname="127.0.0.1")
        _ask(connection, door, f"{_POD}quiet/attach?stdout=1", _WEBSOCKET)
        assert _head(connection).startswith("HTTP/1.1 101 ")
        assert _message(connection) == (2, b"\x03")
    until_closed(connection)


def test_a_browser_s_request_without_upgrade_is_an_ordinary_refusal(talking: Talking) -> None:
    answer = httpx.get(f"{talking.door.url}{_POD}answering/portforward")
    assert answer.status_code == 400 and answer.json()["kind"] == "Status"
