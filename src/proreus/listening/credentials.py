"""The certificate of a door."""

from __future__ import annotations

from pathlib import Path

from proreus.model.errors import InputError, UsageError
from proreus.model.files import read_regular


def check_credentials(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Certificate and key, both or none, and readable."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key come together")
    for path in (certificate, key):
        try:
            read_regular(path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=path) from error
    return certificate, key
