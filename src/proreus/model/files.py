"""Files that are there in full or not at all. Whatever writes a result writes it through here.

Results have the permissions that any new file gets. What a service keeps for itself (logs, experience,
models) is `private`: its owner's alone from the first moment, whatever the umask. What is there already keeps
its mode.

And JSON objects read with errors that name the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from proreus.model.errors import InputError, WorkError

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_FLAGS = {"ab": os.O_APPEND, "xb": os.O_EXCL}


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write to a temporary file beside `path`, make it durable, and rename it into place.

    A link is followed to the file it names; a pipe or a device is written to, never replaced.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            _write_beside(target, content, private=private)
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error


def write_together(contents: Mapping[Path, bytes], *, private: bool = False) -> None:
    """Write files that belong together: all are durable under other names before any takes its place.

    A full disk therefore leaves the old ones as they are, and a crash between two renames is all that could
    part them.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            staged[path] = _stage(path, content, private=private)
        for path, temporary in staged.items():
            temporary.replace(path)
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def open_together(paths: Sequence[Path]) -> Iterator[tuple[BinaryIO, ...]]:
    """Files to write bit by bit, for results too large for memory; they appear when the block ends well.

    Like `write_together`: all are durable before any takes its place, and a failure leaves the old ones.
    """
    staged = {path: _temporary(path) for path in paths}
    try:
        with ExitStack() as stack:
            files = tuple(stack.enter_context(temporary.open("xb")) for temporary in staged.values())
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in staged.items():
            temporary.replace(path)
    except OSError as error:
        raise WorkError(f"{paths[0].parent}: cannot be written: {error.strerror}") from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _write_beside(target: Path, content: bytes, *, private: bool) -> None:
    temporary = _stage(target, content, private=private)
    try:
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _stage(target: Path, content: bytes, *, private: bool) -> Path:
    """The content, durable, in a temporary file beside `target`."""
    temporary = _temporary(target)
    try:
        with open_private(temporary, "xb") if private else temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _temporary(target: Path) -> Path:
    """A new name beside `target`."""
    # Opened by hand, not by tempfile: the result has the permissions that any new file gets.
    return target.parent / f".{secrets.token_hex(8)}.tmp"


def open_private(path: Path, mode: Literal["ab", "xb"], buffering: int = -1) -> BinaryIO:
    """A file to write to; one that is made now is its owner's alone."""
    handle = os.open(path, _FLAGS[mode] | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE_FILE)
    return os.fdopen(handle, mode, buffering)


def open_regular(path: Path) -> BinaryIO:
    """A file to read from; an OSError for a pipe, a socket or a device, whose end may never come."""
    # Not to block: opening a pipe would wait for whoever writes into it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")  # of a folder it is an IsADirectoryError
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, and a file is needed")
    return file


def read_regular(path: Path) -> bytes:
    """The bytes of a file: see `open_regular`."""
    with open_regular(path) as file:
        return file.read()


_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.tmp")


def sweep_temporary(folder: Path) -> int:
    """Remove what a process that was killed while it wrote into `folder` has left; how many files.

    For whoever knows that nobody writes there now.
    """
    gone = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        if _LEFTOVER.fullmatch(path.name):
            path.unlink(missing_ok=True)
            gone += 1
    return gone


def read_object(path: Path, what: str = "a JSON object", *, so: str = "") -> dict[str, Any]:
    """The JSON object in a file. so: what cannot be done without it; the error begins with that."""
    lead = f"{so}: " if so else ""
    try:
        entries = json.loads(read_regular(path))
    except OSError as error:
        raise InputError(f"{so or 'cannot be read'}: {error.strerror}", file=path) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{lead}not JSON: {error}", file=path) from error
    if not isinstance(entries, dict):
        raise InputError(f"{lead}not {what}", file=path)
    return entries


def check_writable(path: Path) -> None:
    """Say before the work, and not after it, that a result could not be written here."""
    try:
        missing, folder = not path.parent.is_dir(), path.is_dir()
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error
    if missing:
        raise WorkError(f"{path}: cannot be written: there is no folder {path.parent}")
    if folder:
        raise WorkError(f"{path}: cannot be written: it is a folder")
    special = path.exists() and not path.is_file()  # a pipe or a device is written to, never replaced
    if not os.access(path if special else path.parent, os.W_OK):
        raise WorkError(f"{path}: cannot be written: Permission denied")


def check_folder(path: Path) -> None:
    """Say before the work that no result could be written into this folder, which need not exist yet."""
    try:
        nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        folder = nearest.is_dir()
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error
    if not folder:
        raise WorkError(f"{path}: cannot be written: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise WorkError(f"{path}: cannot be written: Permission denied")


def make_folder(path: Path, *, private: bool = False) -> None:
    """Make the folder and those above it, where they are missing."""
    try:
        if private:
            make_private_folder(path)
            return
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkError(f"{path}: the folder cannot be made: {error.strerror}") from error


def make_private_folder(path: Path, mode: int = _PRIVATE_FOLDER) -> None:
    """The same, for its owner alone or with that mode, in the words of the system; what stands stays so."""
    # `Path.mkdir` gives its mode to the last folder only.
    for missing in reversed([step for step in path.absolute().parents if not step.exists()]):
        missing.mkdir(mode, exist_ok=True)
    path.mkdir(mode, exist_ok=True)
