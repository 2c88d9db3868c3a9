"""Public files: where they are, what they must be, and where in a data folder they belong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class Remote:
    """A file that may be fetched: it never changes, as its address names a commit."""

    file: str
    """Relative to the data folder."""
    address: str
    sha256: str
    size: int
    """Bytes."""


def published(address: str, folder: str, files: Iterable[tuple[str, str, int]]) -> tuple[Remote, ...]:
    """Files (name, sha256, bytes) under one address, for one folder."""
    return tuple(
        Remote(f"{folder}/{name}", f"{address}/{name}", sha256, size) for name, sha256, size in files
    )
