"""What single containers mount of folders that others may change.

It is found by descriptor, and bound to a place of the node's own: nobody can swap it before it is mounted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.backend import LaunchRefused, NotAllowed
from proreus.engine.runtimes.config_refs import UNRESOLVED
from proreus.engine.runtimes.mounts import bind, mounts_below, unmount
from proreus.engine.runtimes.safe_path import UnsafePath, by_descriptor, open_beneath

_NAMED = os.O_PATH | os.O_CLOEXEC
_KINDS = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


@dataclass(frozen=True, slots=True)
class SubpathMounts:
    """A place of the node's for one mount of a container; only what is mounted there is ever seen in it."""

    place: Path
    read_only: bool
    own_files: bool
    """Whether the container has a root of its own. One that has none, and is started by the node's own user,
    gets at all that this user gets at: there is nothing to be kept from it."""

    def hold(self, fd: int) -> Path:
        """Where what the descriptor names is to be mounted from; raises `LaunchRefused`."""
        try:
            self._clear()
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                self.place.mkdir(parents=True, mode=0o700)
            else:
                self.place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.place.touch(mode=0o600)
            bind(fd, self.place, read_only=self.read_only)
        except PermissionError as error:
            if self.own_files:
                message = f"only root, with the right to mount, can mount a part of a volume: {error}"
                raise LaunchRefused(UNRESOLVED, message) from error
            return Path(os.readlink(by_descriptor(fd)))  # noqa: PTH115 - as the kernel calls it now
        return self.place

    def _clear(self) -> None:
        """What an earlier attempt mounted, or an agent that was killed on the way."""
        here = self.place.parent.resolve() / self.place.name
        for mounted in list(mounts_below(self.place.parent)):
            if mounted.place == here:
                unmount(here)
        if self.place.is_dir():
            self.place.rmdir()
        else:
            self.place.unlink(missing_ok=True)


def open_part(volume: int, path: str, *, make: bool) -> int:
    """A part of a volume by its path in it; raises `LaunchRefused`."""
    try:
        return open_beneath(volume, path, make=make)
    except UnsafePath as error:
        raise LaunchRefused(UNRESOLVED, str(error)) from error
    except FileNotFoundError as error:
        raise LaunchRefused(UNRESOLVED, f"there is no {path!r} in it") from error
    except OSError as error:
        raise LaunchRefused(UNRESOLVED, f"{path!r}: {error.strerror}") from error


def open_host_path(source: Mapping[str, Any], allowed: tuple[Path, ...]) -> int:
    """A path of the machine, if it may be had: what links lead to counts, not what it is called.

    Raises `LaunchRefused`.
    """
    path, kind = Path(str(source["path"])), str(source.get("type") or "")
    real = path.resolve()
    top = next((place for place in map(Path.resolve, allowed) if real.is_relative_to(place)), None)
    if top is None:
        flag = f"--allow-host-path {path}"
        named = Path(os.path.normpath(path))
        # By its name it may be had, so that a link leads elsewhere: the next try may find another thing.
        by_link = any(named.is_relative_to(place) for place in allowed)
        raise (LaunchRefused if by_link else NotAllowed)(
            UNRESOLVED, f"hostPath {path} is not allowed on this node, unless it is started with {flag}"
        )
    if kind == "DirectoryOrCreate":
        top.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        opened = os.open(top, _NAMED)
        try:
            fd = _open_or_make(opened, real.relative_to(top), kind)
        finally:
            os.close(opened)
    except (UnsafePath, OSError) as error:
        message = f"hostPath type check failed: {path} is not a {kind or 'path'}"
        raise LaunchRefused(UNRESOLVED, message) from error
    right = _KINDS.get(kind)
    if right is not None and not right(os.fstat(fd).st_mode):
        os.close(fd)
        raise LaunchRefused(UNRESOLVED, f"hostPath type check failed: {path} is not a {kind}")
    return fd


def _open_or_make(top: int, path: Path, kind: str) -> int:
    if kind == "FileOrCreate" and path.name:
        folder = open_beneath(top, str(path.parent))
        try:
            os.close(os.open(path.name, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder))
        finally:
            os.close(folder)
    return open_beneath(top, str(path), make=kind == "DirectoryOrCreate")
