"""Certificates for a test, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Signed:
    """A key, its certificate, and the authority's certificate."""

    ca: Path
    cert: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl to make certificates: apt install openssl")
        self._folder = folder
        folder.mkdir()
        self.ca, self._key = folder / "ca.pem", folder / "ca.key"
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.ca, "-subj", "/CN=authority")

    def sign(self, name: str) -> Signed:
        """A certificate for a server or a client of that name."""
        key, request, cert = (self._folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extension = self._folder / "extension"
        extension.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial"),
            *("-out", cert, "-days", "2", "-extfile", extension),
        )
        return Signed(self.ca, cert, key)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
