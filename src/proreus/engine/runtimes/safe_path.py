"""Folders that containers may change at any moment, gone through by descriptors: nothing leads out of them.

A path is looked at once. Whoever checks it and then names it again, checks one file and uses another: a
container swaps a folder for a link in between.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_NAMED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_PARTS, _MOST_LINKS = 128, 40


class UnsafePath(Exception):
    """It leads out of its folder, or nowhere; says which."""


def by_descriptor(fd: int) -> str:
    """A path that names what the descriptor names, whatever has become of its old path."""
    return f"/proc/self/fd/{fd}"


def open_beneath(top: int, path: str, *, make: bool = False) -> int:
    """What stands at `path` below the folder `top`, as a descriptor that names it and no more (`O_PATH`).

    Links are followed as long as they stay below. make: folders that are missing are made, with the mode of
    `top`; behind a link none are. Raises `UnsafePath`, and `FileNotFoundError` where nothing stands there.
    """
    waiting = [part for part in reversed(PurePosixPath(path).parts) if part != "."]
    if path.startswith("/") or ".." in waiting or len(waiting) > _MOST_PARTS:
        raise UnsafePath(f"{path[:200]!r} is not a path in a volume")
    links = 0
    way = [os.dup(top)]
    try:
        while waiting:
            part = waiting.pop()
            if part == "..":
                if len(way) == 1:
                    raise UnsafePath(f"{path!r} leads out of its volume")
                os.close(way.pop())
                continue
            way.append(_step(way[-1], part, os.fstat(top).st_mode if make and not links else None))
            kind = os.fstat(way[-1]).st_mode
            if stat.S_ISLNK(kind):
                target = os.readlink("", dir_fd=way[-1])
                os.close(way.pop())
                links += 1
                if target.startswith("/") or links > _MOST_LINKS:
                    raise UnsafePath(f"{path!r} leads out of its volume: {part!r} is a link to {target!r}")
                waiting.extend(reversed(PurePosixPath(target).parts))
            elif waiting and not stat.S_ISDIR(kind):
                raise UnsafePath(f"{path!r} leads nowhere: {part!r} is not a folder")
        return way.pop()
    except FileNotFoundError as error:
        if links:
            raise UnsafePath(f"{path!r} leads nowhere: a link in it has no end") from error
        raise
    finally:
        for fd in way:
            os.close(fd)


def _step(folder: int, name: str, mode: int | None) -> int:
    """One name further; where a mode is given, a folder that is missing is made with it."""
    try:
        return os.open(name, _NAMED, dir_fd=folder)
    except FileNotFoundError:
        if mode is None:
            raise
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:  # somebody else was faster: then it is as they made it
        return os.open(name, _NAMED, dir_fd=folder)
    made = os.open(name, _NAMED, dir_fd=folder)
    if stat.S_ISDIR(os.fstat(made).st_mode):  # the mask of this process counts for others, too
        os.chmod(by_descriptor(made), stat.S_IMODE(mode))  # noqa: PTH101
    return made


class Visit(NamedTuple):
    """A folder, come into or come back to."""

    folder: int
    """Open while it is looked at."""
    entries: tuple[os.DirEntry[str], ...]
    """What is in it; nothing where it is come back to."""
    done: str
    """On the way back: the folder in it that has been gone through."""


def walk_beneath(top: Path, *, force: bool = False) -> Iterator[Visit]:
    """All folders below `top` on its own file system, the way in and the way back.

    Neither links nor mounts are followed, and no depth is too great. force: folders that do not let their
    owner in are opened up first. Raises `OSError` where something is moved away meanwhile.
    """
    here = os.open(top, _LISTED | os.O_NOFOLLOW)
    device = os.fstat(here).st_dev
    way: list[tuple[list[str], str, tuple[int, int]]] = []
    """For every folder above this one: what is left to go into, and what it was entered by."""
    try:
        entries, left = _look(here, device)
        yield Visit(here, entries, "")
        while True:
            while left:
                name = left.pop()
                below = _enter(here, name, force=force)
                if below is None:  # it is gone, or became something else
                    continue
                about = os.fstat(here)
                way.append((left, name, (about.st_dev, about.st_ino)))
                os.close(here)
                here = below
                entries, left = _look(here, device)
                yield Visit(here, entries, "")
            if not way:
                return
            left, name, above = way.pop()
            back = os.open("..", _LISTED, dir_fd=here)
            os.close(here)
            here = back
            about = os.fstat(here)
            if (about.st_dev, about.st_ino) != above:
                raise OSError(f"a folder below {top} was moved away")
            yield Visit(here, (), name)
    finally:
        os.close(here)


def _look(folder: int, device: int) -> tuple[tuple[os.DirEntry[str], ...], list[str]]:
    """Its entries, and those of them that are folders of this file system."""
    with os.scandir(folder) as scandir_iterator:
        entries = tuple(scandir_iterator)
    folders = []
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
                folders.append(entry.name)
        except OSError:  # gone meanwhile
            continue
    return entries, folders


def _enter(folder: int, name: str, *, force: bool) -> int | None:
    try:
        if not force:
            return os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=folder)
        named = os.open(name, _NAMED | os.O_DIRECTORY, dir_fd=folder)
        try:
            os.chmod(by_descriptor(named), 0o700)  # noqa: PTH101
            return os.open(".", _LISTED, dir_fd=named)
        finally:
            os.close(named)
    except OSError:
        return None
