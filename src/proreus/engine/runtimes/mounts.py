"""Mounts of this machine, as the kernel makes, lists and takes them away."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proreus.engine.runtimes.safe_path import by_descriptor

_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 0x1000, 0x4000, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_MOUNT_SETATTR = 442
"""The number of the system call, the same on every machine."""
_AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY = -100, 0x8000, 1
_ESCAPE = re.compile(r"\\([0-7]{3})")
"""How the kernel writes a space in a path."""
_libc = ctypes.CDLL(None, use_errno=True)


class Mounted(NamedTuple):
    """A line of the mount table."""

    place: Path
    kind: str
    """Of its file system."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def mount_memory(place: Path, options: str) -> None:
    """Raises `OSError`."""
    _called(
        _libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", _MS_NOSUID | _MS_NODEV, options.encode()), place
    )


def bind(fd: int, place: Path, *, read_only: bool) -> None:
    """What the descriptor names stands at `place`, too, with what is mounted below it; raises `OSError`.

    read_only: all of it, the mounts below included; where the kernel cannot do that (before 5.12), these are
    left out.
    """
    source = by_descriptor(fd).encode()
    _called(_libc.mount(source, os.fsencode(place), None, _MS_BIND | _MS_REC, None), place)
    _set_apart(place)
    if read_only and not _protect(place):
        unmount(place)
        _called(_libc.mount(source, os.fsencode(place), None, _MS_BIND, None), place)
        _set_apart(place)


def unmount(place: Path) -> None:
    """What is mounted there goes, with all below it; raises `OSError`."""
    _set_apart(place)
    _called(_libc.umount2(os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW), place)


def mounts_below(folder: Path) -> Iterator[Mounted]:
    """What is mounted there, the innermost and last first."""
    top = str(folder.resolve()) + "/"
    for line in reversed(Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()):
        _, written, kind, *_ = line.split(" ")
        place = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), written)
        if place.startswith(top):
            yield Mounted(Path(place), kind)


def _set_apart(place: Path) -> None:
    """Else what is unmounted below it would be unmounted where it came from, too."""
    _called(_libc.mount(None, os.fsencode(place), None, _MS_REC | _MS_PRIVATE, None), place)


def _protect(place: Path) -> bool:
    """Nothing in it can be written through it any more; False where the kernel does not know how."""
    wanted = _Attributes(_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(place),
        _AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )
    if done != 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):  # EPERM: a filter of system calls
        return False
    _called(done, place)
    return True


def _called(result: int, place: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(place))
