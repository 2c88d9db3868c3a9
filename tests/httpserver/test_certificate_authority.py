"""A certificate authority of one's own: kept, renewed in time, and for its owner alone."""

from __future__ import annotations

import asyncio
import socket
import ssl
import stat
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

pytest.importorskip("cryptography", reason="certificates need the extra `engine`")
pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")

from cryptography import x509

from proreus.engine.api.server import server as api_server
from proreus.engine.api.server.options import ApiOptions
from proreus.httpserver.certificate_authority import Authority
from proreus.httpserver.tls_handshakes import Handshakes
from proreus.model.errors import InputError, UsageError
from tests.engine.api.live import live

_HERE = ("localhost", "127.0.0.1", "::1")
_NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _door(authority: Authority, now: datetime | None = None) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.credentials(now)[0].read_bytes())


def test_keys_are_their_owner_s_alone_and_all_is_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls", _HERE)
    first, made = _door(authority), authority.certificate.read_bytes()
    for path in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    again = Authority(tmp_path / "tls", _HERE)
    assert _door(again) == first and again.certificate.read_bytes() == made


def test_the_door_s_certificate_is_renewed_before_it_ends_and_the_authority_stays(tmp_path: Path) -> None:
    authority = Authority(tmp_path, _HERE)
    first, made = _door(authority, _NOW), authority.certificate.read_bytes()
    assert _door(authority, _NOW + timedelta(days=200)) == first
    later = _door(authority, _NOW + timedelta(days=300))
    assert later != first and later.not_valid_after_utc > first.not_valid_after_utc
    assert authority.certificate.read_bytes() == made


def test_the_authority_too_is_renewed_and_who_trusts_the_last_one_trusts_the_next(tmp_path: Path) -> None:
    authority = Authority(tmp_path, _HERE)
    _door(authority, _NOW)
    before = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    door = _door(authority, _NOW + timedelta(days=3000))
    after = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    assert after.not_valid_after_utc > before.not_valid_after_utc
    for certificate in (before, after):
        door.verify_directly_issued_by(certificate)


def test_other_names_are_another_certificate(tmp_path: Path) -> None:
    first = _door(Authority(tmp_path, _HERE))
    door = _door(Authority(tmp_path, (*_HERE, "192.0.2.7", "cluster.example", "[2001:db8::1]")))
    assert door != first
    names = door.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "cluster.example"]
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "::1", "192.0.2.7", "2001:db8::1"}
    with pytest.raises(UsageError, match="no name of a host"):
        _door(Authority(tmp_path, ("a" * 300,)))


def test_what_is_torn_is_made_anew_and_a_key_that_is_known_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path, _HERE)
    first = _door(authority)
    for torn in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n"):
        (tmp_path / "server.pem").write_bytes(torn)
        assert _door(authority) != first
        authority.certificate.write_bytes(torn)
        _door(authority).verify_directly_issued_by(
            x509.load_pem_x509_certificate(authority.certificate.read_bytes())
        )
    (tmp_path / "ca.key").chmod(0o640)
    with pytest.raises(InputError, match="other users of this machine may read"):
        authority.credentials()
    (tmp_path / "ca.key").chmod(0o600)
    (tmp_path / "ca.key").write_bytes(b"torn")
    with pytest.raises(InputError, match="damaged; remove it"):
        authority.credentials()


def test_a_running_door_shows_the_new_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "_RENEW_SECONDS", 0.05)
    authority = Authority(tmp_path, _HERE)

    def shown(port: int) -> bytes:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
            trusting.wrap_socket(connection, server_hostname="127.0.0.1") as spoken,
        ):
            certificate = spoken.getpeercert(binary_form=True)
            assert certificate is not None
            return certificate

    with live(ApiOptions(authority=authority, plain_here=True)) as door:
        first = shown(door.port)
        (tmp_path / "server.pem").unlink()
        end = time.monotonic() + 20
        while shown(door.port) == first:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_one_port_speaks_tls_and_plain_to_this_machine(tmp_path: Path) -> None:
    authority = Authority(tmp_path, _HERE)
    with live(ApiOptions(authority=authority, plain_here=True)) as door:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        for host in ("localhost", "127.0.0.1"):
            assert httpx.get(f"https://{host}:{door.port}/livez", verify=trusting).text == "ok"
            assert httpx.get(f"http://{host}:{door.port}/livez").text == "ok"
        with pytest.raises(httpx.ConnectError, match=r"self-signed|unable to get local issuer"):
            httpx.get(f"https://localhost:{door.port}/livez", verify=True)


def test_who_says_nothing_is_sent_away_and_holds_up_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path, _HERE)
    with live(ApiOptions(authority=authority, plain_here=True)) as door:
        silent = [socket.create_connection(("127.0.0.1", door.port), timeout=30) for _ in range(200)]
        begin = time.monotonic()
        assert httpx.get(f"http://127.0.0.1:{door.port}/livez").text == "ok"
        assert time.monotonic() - begin < 3
        for connection in silent:
            assert connection.recv(1) == b""
            connection.close()
        assert time.monotonic() - begin < 20


def test_who_is_elsewhere_is_told_to_speak_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proreus.httpserver.tls_handshakes._is_here", lambda _: False)
    certificate, key = Authority(tmp_path, _HERE).credentials()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    listening = socket.create_server(("127.0.0.1", 0))
    answers: list[bytes] = []

    def ask() -> None:
        with socket.create_connection(listening.getsockname(), timeout=10) as connection:
            connection.sendall(b"GET /api HTTP/1.1\r\nauthorization: Bearer secret\r\n\r\n")
            answers.append(connection.recv(4096))

    async def play() -> None:
        handshakes = Handshakes(context, 8, plain_here=True)
        accepting = asyncio.create_task(handshakes.accept(listening, asyncio.Protocol))
        await asyncio.to_thread(ask)
        accepting.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(play()))
    thread.start()
    thread.join(30)
    listening.close()
    assert answers and answers[0].startswith(b"HTTP/1.0 400") and b"HTTPS server" in answers[0]
