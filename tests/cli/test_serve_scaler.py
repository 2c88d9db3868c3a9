"""The flags of `proreus serve scaler`."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="the service needs the extra `serve`")

from tests.cli.runner import Proreus


def test_the_help_fits_a_terminal_and_has_an_example(
    proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = proreus("serve", "scaler", "--help")
    assert ended.code == 0
    assert "proreus serve scaler --port 6000" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--port", "70000"), "--port 70000"),
        (("--tls-client-ca", "x.pem"), "--tls-client-ca needs"),
        (("--tls-cert", "x.pem"), "come together"),
        (("--policy", "no_such"), "no_such"),
        (("--scrape-seconds", "0"), "--scrape_seconds"),
        (("--host", "0.0.0.0", "--strict"), "--strict: anyone who reaches 0.0.0.0"),
    ],
)
def test_bad_flags_are_one_line(words: tuple[str, ...], says: str, proreus: Proreus) -> None:
    ended = proreus("serve", "scaler", *words)
    assert ended.code == 2
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1
