"""The runtime log of `proreus up` and `proreus agent`: a rotated file in the folder of the cluster."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Literal

from proreus.cli.arguments import JsonLines, PlainLines
from proreus.cli.output import LogLevel
from proreus.model.files import make_private_folder

PLACE = Path("logs", "runtime.log")
_MOST_BYTES, _FILES = 10 * 1024 * 1024, 5


@dataclass(frozen=True)
class RuntimeLog:
    """What is kept of the log, beside stderr."""

    runtime_log: Literal["text", "json", "off"] = "text"
    """Keep a log in logs/runtime.log of the folder of the cluster: as text, one JSON object a line, or not.
    Five files of 10 MiB are kept."""
    runtime_log_level: LogLevel = "info"
    """How much is kept there."""


class _File(RotatingFileHandler):
    """A file that others may not read; a disk that is full is told once, and stops nothing."""

    told = False

    def _open(self):  # type: ignore[no-untyped-def]
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=_privately)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Called where a record could not be written."""
        if not self.told:
            self.told = True
            print(f"proreus: {self.baseFilename}: {sys.exc_info()[1]}", file=sys.stderr, flush=True)


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def runtime_log(options: RuntimeLog, folder: Path) -> Iterator[None]:
    """Everything that is logged meanwhile goes there, too; stderr gets what it got before."""
    if options.runtime_log == "off":
        yield
        return
    path = folder / PLACE
    make_private_folder(path.parent)
    handler = _File(path, maxBytes=_MOST_BYTES, backupCount=_FILES - 1, encoding="utf-8", delay=True)
    handler.setLevel(options.runtime_log_level.upper())
    handler.setFormatter(JsonLines() if options.runtime_log == "json" else PlainLines())
    logger = logging.getLogger("proreus")
    before = logger.level
    for other in logger.handlers:
        other.setLevel(max(other.level, before))
    logger.addHandler(handler)
    logger.setLevel(min(before, handler.level))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()
