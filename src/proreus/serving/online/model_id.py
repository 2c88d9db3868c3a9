"""Which folder of a model a log belongs to: an id that is drawn once, and kept beside the learner's place.

A log in a store may be within reach of many services. What one of them has learned from may be dropped, so
no other may count on it: a log has one owner.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from proreus.model.errors import WorkError
from proreus.model.files import write_atomically

_NAME = "owner"


def owner_of(experience: Path) -> str:
    """The id of this folder; two processes that come at once get the same."""
    path = experience / _NAME
    try:
        if not path.exists():
            drawn = experience / f".{_NAME}-{secrets.token_hex(8)}"
            write_atomically(drawn, (secrets.token_hex(8) + "\n").encode(), private=True)
            with contextlib.suppress(FileExistsError):  # somebody else's came first
                os.link(drawn, path)  # there at once and in full
            drawn.unlink(missing_ok=True)
        return path.read_text().strip()
    except OSError as error:
        raise WorkError(f"{path}: cannot be written or read: {error.strerror}") from error
