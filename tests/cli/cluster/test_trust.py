"""Certificates: whose are trusted, and which file is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.cli.cluster.client import Client
from proreus.cli.cluster.messages import Unreachable
from proreus.cli.cluster.state_dir import Address
from proreus.engine.api.server.options import ApiOptions
from proreus.httpserver.tls import check_credentials
from proreus.model.errors import InputError
from tests.certificates import make_certificate
from tests.engine.api.live import Live, live


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def door(pair: tuple[Path, Path]) -> Iterator[Live]:
    with live(ApiOptions(credentials=pair)) as server:
        yield server


def _ask(server: str, authority: str = "") -> None:
    with Client(Address(server, authority=authority)) as client:
        client.get("/version")


def test_a_certificate_that_nobody_signed_is_told_with_the_flag_that_helps(
    door: Live, pair: tuple[Path, Path]
) -> None:
    _ask(f"https://localhost:{door.port}", str(pair[0]))
    untrusted = r"not trusted here: self.signed certificate; another cluster .*--dir .*--ca FILE"
    with pytest.raises(Unreachable, match=untrusted):
        _ask(f"https://localhost:{door.port}")


def test_a_door_without_tls_is_told() -> None:
    with live() as plain, pytest.raises(Unreachable, match=r"does not speak TLS.*http://"):
        _ask(f"https://localhost:{plain.port}")


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_a_certificate_is_named(text: str, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text(text)
    with pytest.raises(InputError, match=r"wrong\.pem.*no certificate in PEM form"):
        _ask("https://localhost:1", str(wrong))
    with pytest.raises(InputError, match=r"wrong\.pem.*no certificate in PEM form"):
        check_credentials(wrong, pair[1])
    with pytest.raises(InputError, match=r"wrong\.pem.*no private key in PEM form"):
        check_credentials(pair[0], wrong)


def test_a_key_of_another_certificate_and_one_with_a_password(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    assert check_credentials(*pair) == pair
    _, other = make_certificate(tmp_path)
    with pytest.raises(InputError, match=r"key\.pem.*belongs to another certificate"):
        check_credentials(pair[0], other)
    locked = tmp_path / "locked.pem"
    words = f"openssl ec -in {pair[1]} -out {locked} -aes256 -passout pass:secret"
    subprocess.run(words.split(), check=True, capture_output=True)
    with pytest.raises(InputError, match=r"locked\.pem.*has a password"):
        check_credentials(pair[0], locked)
