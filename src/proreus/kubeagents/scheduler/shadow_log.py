"""What a shadow found, a JSON object a line in a folder, within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from proreus.kubeagents.scheduler.shadow_core import Comparison
from proreus.model.errors import InputError, WorkError

NAME = "decisions.jsonl"
MOST_BYTES = 512 << 20


class ShadowLog:
    """Appends comparisons; where the file gets too long, it becomes the one before, and a new one begins."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self._path, self._most = folder / NAME, most
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab"):
                pass
        except OSError as error:
            raise WorkError(f"{folder}: nothing can be written here: {error.strerror}") from error

    def append(self, found: Iterable[Comparison]) -> None:
        """A WorkError where the disk is full."""
        text = "".join(json.dumps(one.told(), separators=(",", ":")) + "\n" for one in found)
        if not text:
            return
        try:
            if self._path.stat().st_size + len(text) > self._most:
                self._path.replace(before(self._path.parent))
            with self._path.open("a") as file:
                file.write(text)
        except OSError as error:
            raise WorkError(f"{self._path}: {error.strerror}") from error


def before(folder: Path) -> Path:
    """The file before the present one."""
    return folder / f"before-{NAME}"


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """All comparisons, oldest first; a last line that was cut is left out."""
    paths = [path for path in (before(folder), folder / NAME) if path.exists()]
    if not paths:
        raise InputError(
            f"there is no {NAME}: proreus kube scheduler --mode shadow --record DIR", file=folder
        )
    for path in paths:
        with path.open() as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break
                try:
                    yield json.loads(line)
                except ValueError:
                    raise InputError("not a line of a shadow's log", file=path, line=number) from None
