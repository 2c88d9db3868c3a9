"""Folders that policies are loaded from when somebody names them over the wire.

Who may name a policy must not thereby have any file of the machine executed: a path counts only inside a
folder that the operator has named, and only while nobody but its owner, or root, can change what is there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

from proreus.model.errors import UsageError
from proreus.policies.checkpoint import CARD, WEIGHTS

_ROOT_USER = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_COMPILED = "__pycache__"
"""Beside a file: what compilers of its functions keep there is executed, too."""


class NotAdmitted(UsageError):
    """A policy that the operator has not allowed to be loaded."""


@dataclass(frozen=True)
class PolicyFolders:
    """What may be loaded by a name that came over the wire; without folders, nothing by path."""

    folders: tuple[Path, ...] = ()
    """Of files with policies, of checkpoints and training runs; resolved."""
    models: Path | None = None
    """Of checkpoints and training runs alone."""
    given: frozenset[str] = frozenset()
    """Names of policies that the operator gave: these are loaded wherever they lie."""
    flag: str = "--policy-folder"
    """How an operator names a folder."""

    @classmethod
    def of(
        cls, folders: Iterable[Path], models: Path | None = None, given: Iterable[str] = ()
    ) -> PolicyFolders:
        """A `UsageError` where others may change what is in a folder, or put another in its place."""
        resolved = tuple(folder.resolve() for folder in folders)
        for folder in resolved:
            if why := _changed_by_others(folder, folder):
                raise UsageError(f"{cls.flag} {folder}: {why}")
        names = {part for name in given if name for part in (name, name.partition("@")[2]) if part}
        return cls(resolved, models, frozenset(names))

    def file(self, name: str) -> Path:
        """The resolved path of a file with policies; `NotAdmitted` where it is not to be loaded."""
        path, folder = self._inside(name, self.folders)
        for part in (path, path.parent / _COMPILED):
            if part.exists():
                _check(name, part, folder)
        return path

    def checkpoint(self, name: str) -> Path:
        """The resolved path of a folder inside those of checkpoints; `NotAdmitted` as for `file`.

        Whether a checkpoint is there is for the caller to find out.
        """
        places = self.folders if self.models is None else (*self.folders, self.models.resolve())
        path, folder = self._inside(name, places)
        if path.exists():
            _check(name, path, folder)
        for part in (path / CARD, path / WEIGHTS):
            if part.exists() and part.resolve() != part:
                raise NotAdmitted(f"{part} is a link: a checkpoint is one folder")
            if part.exists():
                _check(name, part, folder)
        return path

    def installed(self, entry: EntryPoint) -> None:
        """Refuse a policy of an installed package that others can change: one that is not installed, but lies
        where the process was started."""
        place = None if entry.dist is None else Path(str(entry.dist.locate_file(""))).resolve()
        if place is None or _changed_by_others(place, place):
            raise NotAdmitted(f"{entry.name}: others can change the package that offers it, in {place}")

    def module(self, name: str) -> NotAdmitted:
        """Why a module by its name is not loaded: what an import finds is not known before it runs."""
        return NotAdmitted(
            f"{name!r}: a module is not imported for whoever names it here; say FILE.py:Name, in a folder "
            f"that was named with {self.flag} DIR at the start"
        )

    def _inside(self, name: str, places: tuple[Path, ...]) -> tuple[Path, Path]:
        """Resolved once: what is checked is what is loaded. Nothing is told of files that are elsewhere."""
        try:
            path = Path(name).resolve()
        except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL in it
            path = Path("/")
        for folder in places:
            if path.is_relative_to(folder):
                return path, folder
        raise NotAdmitted(
            f"{name!r} is in none of the folders that policies are loaded from; name its folder with "
            f"{self.flag} DIR at the start"
        )


def _check(name: str, path: Path, folder: Path) -> None:
    if why := _changed_by_others(path, folder):
        raise NotAdmitted(f"{name!r}: {why}")


def _changed_by_others(path: Path, folder: Path) -> str:
    """How somebody else than this user, or root, could change what is at a resolved path; "": not at all.

    From the folder upwards a sticky place (/tmp) will do: others cannot move there what is not theirs.
    """
    for part in _upwards(path):
        try:
            state = part.lstat()
        except OSError as error:
            return f"{part}: {error.strerror}"
        if stat.S_ISLNK(state.st_mode):
            return f"{part} has become a link"
        if state.st_uid not in (_ROOT_USER, os.geteuid()):
            return f"{part} belongs to another user (uid {state.st_uid})"
        sticky = bool(state.st_mode & stat.S_ISVTX) and part in folder.parents
        if state.st_mode & _OTHERS_WRITE and not sticky:
            return f"other users may write {part}; chmod go-w keeps them from it"
    return ""


def _upwards(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents
