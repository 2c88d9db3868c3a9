"""Files that are there in full or not at all. `outputs` writes every file of a comparison through here."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from proreus.model.errors import WorkError


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, make it durable, and rename it into place."""
    # Opened by hand, not by tempfile: the result has the permissions that any new file gets.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        if temporary.exists():
            temporary.unlink()


def make_folder(path: Path) -> None:
    """Make the folder and those above it, where they are missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkError(f"{path}: the folder cannot be made: {error.strerror}") from error
