"""The certificate of a door."""

from __future__ import annotations

import ssl
from pathlib import Path

from proreus.model.errors import InputError, UsageError
from proreus.model.files import read_regular


def check_credentials(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Certificate and key, both or none, that fit together; the one that is wrong is named."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key come together")
    check_authority(certificate)
    _read(key)
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            why = "the key has a password, and nobody is there to type it"
        elif getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            why = f"the key belongs to another certificate than {certificate}"
        else:
            why = "there is no private key in PEM form in it"
        raise InputError(why, file=key) from error
    return certificate, key


def check_authority(certificate: Path) -> None:
    """Whether a file holds certificates."""
    _read(certificate)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except (ssl.SSLError, ValueError) as error:
        raise InputError("there is no certificate in PEM form in it", file=certificate) from error


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from error
