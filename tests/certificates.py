"""A certificate for tests, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Certificate and key, for this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    about = "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    words = f"{make} {about} -keyout {key} -out {certificate}"
    subprocess.run(words.split(), check=True, capture_output=True)
    return certificate, key
