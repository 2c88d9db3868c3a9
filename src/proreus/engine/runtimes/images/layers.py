"""Unpacking one layer of an image over those below it, without ever leaving the image's own folder."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from proreus.engine.runtimes.images.checked_stream import BadArchive, CheckedStream

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_LONGEST_PATH, _LONGEST_NAME, _DEEPEST = 4096, 255, 128
_MOST_LINKS = 40
_STEP = 1 << 16
_MOST_ID = 2**32 - 2


@dataclass
class Allowance:
    """What an image may still unpack; shared by its layers."""

    bytes: int
    entries: int


def apply_layer(root: Path, source: BinaryIO, allowance: Allowance, *, compressed: bool) -> str:
    """Unpack a layer into `root`; the digest of its unpacked tar. Raises `BadArchive`."""
    # Headers and padding come on top of what files have.
    most = allowance.bytes + (allowance.entries + 2) * 4096
    stream = CheckedStream(source, most, compressed=compressed)
    fresh: set[Path] = set()
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                allowance.entries -= 1
                if allowance.entries < 0:
                    raise BadArchive("it has too many files")
                _apply(root, tar, member, allowance, fresh)
                tar.members = []  # type: ignore[attr-defined]  # the list would grow with the layer
    except tarfile.TarError as error:
        if stream.tell() or not _is_empty(error):
            raise BadArchive(f"a layer is not a sound tar: {error}") from error
    except (OverflowError, ValueError, RecursionError, UnicodeError) as error:
        raise BadArchive(f"a layer is not a sound tar: {error}") from error
    except OSError as error:
        raise BadArchive(f"a layer cannot be unpacked: {error.strerror or error}") from error
    return stream.digest()


def _is_empty(error: tarfile.TarError) -> bool:
    return isinstance(error, tarfile.ReadError) and "empty file" in str(error)


def _apply(
    root: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, allowance: Allowance, fresh: set[Path]
) -> None:
    parts = checked_parts(member.name)
    if not parts:
        return
    if member.issparse():
        raise BadArchive(f"{member.name!r} is a sparse file")
    parent = scoped(root, parts[:-1])
    _make_folders(root, parent)
    name = parts[-1]
    if name.startswith(_WHITEOUT):
        _white_out(parent, name, fresh)
        return
    target = parent / name
    if member.isdir():
        if not _is_folder(target):
            _clear(target)
            target.mkdir()
    elif member.isreg():
        if member.size > allowance.bytes:
            raise BadArchive(f"it unpacks to more than it may: {member.name!r} is too much")
        allowance.bytes -= member.size
        _clear(target)
        _write(tar, member, target)
    elif member.issym():
        _check_link(parts, member.linkname)
        _clear(target)
        target.symlink_to(member.linkname)
        _own(target, member)
        fresh.add(target)
        return
    elif member.islnk():
        existing = scoped(root, checked_parts(member.linkname))
        if not existing.is_file() or existing.is_symlink():
            raise BadArchive(f"{member.name!r} is a link to what is no file of the image")
        if existing != target:
            _clear(target)
            target.hardlink_to(existing)
        fresh.add(target)
        return
    else:
        raise BadArchive(f"{member.name!r} is a device, a pipe, or of an unknown kind")
    _own(target, member)
    target.chmod(member.mode & 0o7777)
    fresh.add(target)


def checked_parts(name: str) -> tuple[str, ...]:
    """A member's path, which must stay below where it is unpacked; raises `BadArchive`."""
    if name.startswith("/"):
        raise BadArchive(f"{name[:200]!r} is an absolute path")
    parts = PurePosixPath(name).parts
    if ".." in parts:
        raise BadArchive(f"{name[:200]!r} leads upwards")
    if len(os.fsencode(name)) > _LONGEST_PATH or len(parts) > _DEEPEST:
        raise BadArchive(f"{name[:200]!r}... is too long or too deep a path")
    if any(len(os.fsencode(part)) > _LONGEST_NAME or "\0" in part for part in parts):
        raise BadArchive(f"{name[:200]!r} has an impossible name in it")
    return parts


def scoped(root: Path, parts: tuple[str, ...]) -> Path:
    """The path as a process in the image would find it: links never lead out of `root`."""
    waiting = list(reversed(parts))
    resolved: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part in ("", ".", "/"):
            continue
        if part == "..":
            resolved = resolved[:-1]
            continue
        here = root.joinpath(*resolved, part)
        if not here.is_symlink():
            resolved.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise BadArchive(f"{'/'.join(parts)[:200]!r} leads through too many links")
        target = PurePosixPath(os.readlink(here))  # noqa: PTH115 - the words, not a path of this machine
        if target.is_absolute():
            resolved = []
        waiting.extend(reversed(target.parts))
    return root.joinpath(*resolved)


def _check_link(parts: tuple[str, ...], target: str) -> None:
    """A relative link that climbs above the root has no good reason to."""
    if not target or "\0" in target or len(os.fsencode(target)) > _LONGEST_PATH:
        raise BadArchive(f"{'/'.join(parts)[:200]!r} is a link to an impossible place")
    if target.startswith("/"):
        depth, rest = 0, PurePosixPath(target).parts[1:]
    else:
        depth, rest = len(parts) - 1, PurePosixPath(target).parts
    for part in rest:
        depth += -1 if part == ".." else 1
        if depth < 0:
            raise BadArchive(f"{'/'.join(parts)[:200]!r} is a link that leads out of the image")


def _make_folders(root: Path, folder: Path) -> None:
    """Folders that a layer leaves out are made; a file in the way is replaced, as by other engines."""
    for step in reversed([folder, *folder.parents]):
        if step.is_relative_to(root) and step != root and not _is_folder(step):
            _clear(step)
            step.mkdir(mode=0o755)


def _white_out(parent: Path, name: str, fresh: set[Path]) -> None:
    if name == _OPAQUE:
        for path in list(parent.iterdir()):
            if not any(new == path or path in new.parents for new in fresh):
                _clear(path)
        return
    hidden = name.removeprefix(_WHITEOUT)
    if hidden in ("", ".", ".."):
        raise BadArchive(f"{name!r} hides nothing that could be there")
    _clear(parent / hidden)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _clear(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = tar.extractfile(member)
    assert source is not None  # it is a regular file
    left = member.size
    with target.open("xb") as file:
        while left:
            data = source.read(min(_STEP, left))
            if not data:
                raise BadArchive(f"{member.name!r} ends too early")
            file.write(data)
            left -= len(data)


def _own(target: Path, member: tarfile.TarInfo) -> None:
    if not (0 <= member.uid <= _MOST_ID and 0 <= member.gid <= _MOST_ID):
        raise BadArchive(f"{member.name!r} has an impossible owner")
    if os.geteuid() == 0:
        os.chown(target, member.uid, member.gid, follow_symlinks=False)


def tree_size(folder: Path) -> int:
    """Bytes on the disk, links counted once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            known = Path(where, name).lstat()
            if (known.st_dev, known.st_ino) not in seen and not stat.S_ISLNK(known.st_mode):
                seen.add((known.st_dev, known.st_ino))
                total += known.st_blocks * 512
    return total
