"""What lies in the folders that a dashboard was given: training runs, comparisons, stores of models.

A browser names them by ids that are made here; it never names a path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proreus.learning.run_folder import SETTINGS
from proreus.model.errors import InputError
from proreus.serving.model_version import CURRENT

Kind = Literal["training", "comparison", "models"]
REPORT, ROWS = "report.html", "rows.json"
_DEEPEST = 3
_MOST = 500
_MOST_LOOKED_AT = 5_000


@dataclass(frozen=True)
class Found:
    """One of them."""

    kind: Kind
    path: Path
    name: str
    """The folder's, below the one that was given."""

    @property
    def id(self) -> str:
        """By which a browser asks for it."""
        return hashlib.sha256(f"{self.kind}:{self.path}".encode()).hexdigest()[:16]


class RunFolders:
    """Looks anew whenever it is asked: runs come while somebody watches."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(root.absolute() for root in roots)

    def check(self) -> None:
        """An InputError where a folder is not there, or nothing of ours is in it."""
        for root in self._roots:
            if not root.is_dir():
                raise InputError("is not a folder", file=root)
            if not any(_below(root, root.name)):
                raise InputError(
                    "holds neither a training run, nor a comparison, nor a store of models", file=root
                )

    def all(self, kind: Kind) -> list[Found]:
        """Those of a kind, by name; of very many the first."""
        found = {entry.id: entry for root in self._roots for entry in _below(root, root.name)}
        return sorted((entry for entry in found.values() if entry.kind == kind), key=lambda one: one.name)[
            :_MOST
        ]

    def one(self, kind: Kind, name: str) -> Found | None:
        """The one of that id."""
        return next((entry for entry in self.all(kind) if entry.id == name), None)


def _below(root: Path, name: str) -> Iterator[Found]:
    """Not through links: who gives a folder gives what lies in it."""
    waiting, looked_at = [(root, name, 0)], 0
    while waiting and looked_at < _MOST_LOOKED_AT:
        folder, shown, depth = waiting.pop(0)
        looked_at += 1
        kind = _kind_of(folder)
        if kind is not None:
            yield Found(kind, folder, shown)
        if depth < _DEEPEST and kind != "training":
            waiting += [
                (below, f"{shown}/{below.name}", depth + 1)
                for below in _folders(folder)
                if not below.name.startswith(".")
            ]


def _kind_of(folder: Path) -> Kind | None:
    try:
        if (folder / SETTINGS).is_file():
            return "training"
        if (folder / ROWS).is_file():
            return "comparison"
        if any((below / CURRENT).is_file() for below in _folders(folder)):
            return "models"
    except OSError:
        return None
    return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(below for below in folder.iterdir() if below.is_dir() and not below.is_symlink())
    except OSError:  # it went, or is not for us
        return []
