"""One process a folder, one `proreus up` a store: two that run the same nodes would run every pod twice.

Who holds the lock has a name that nobody else has while it does, and that stays the same for whoever holds it
next: so a process takes up at once what one that was killed has left.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from proreus.model.errors import WorkError
from proreus.model.files import make_private_folder

_DOWN = "down"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Holder:
    """Whoever holds a folder; named after the locked file itself, since a path or a host may exist twice."""

    file: str
    """Of all files of the running system."""

    def on_this_machine(self) -> str:
        """Its name among the processes of this machine."""
        return f"{socket.gethostname()}-{self.file}"

    def anywhere(self) -> str:
        """Its name among all machines, until this one starts again; "" where the system does not tell.

        Of machines, too, there are copies, with the same names and the same files; no two of them share a
        start.
        """
        try:
            started = _BOOT.read_text().strip()
        except OSError:
            return ""
        return f"{self.on_this_machine()}-{started}"


class LockPurpose(Enum):
    """What a process runs in its folder."""

    CLUSTER = "cluster"
    AGENT = "agent"


@dataclass(frozen=True)
class FolderLock:
    """A folder that somebody holds."""

    process: int
    work: LockPurpose


def held_by(folder: Path) -> FolderLock | None:
    """Who holds the folder; None where nobody does."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        process, _, work = _written(handle).partition(" ")
        known = LockPurpose.AGENT if work == LockPurpose.AGENT.value else LockPurpose.CLUSTER
        return FolderLock(int(process), known) if process.isdigit() else None
    finally:
        os.close(handle)
    return None


@contextmanager
def down_follows(folder: Path) -> Iterator[None]:
    """As long as the block lasts, whoever ends in the folder finds that its containers are stopped next."""
    mark = folder / _DOWN
    mark.touch(mode=0o600)
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def is_down_next(folder: Path) -> bool:
    """Whether `proreus down` has ordered the end of what runs in the folder."""
    return (folder / _DOWN).exists()


@contextmanager
def only_one(folder: Path, work: LockPurpose = LockPurpose.CLUSTER) -> Iterator[Holder]:
    """Hold the folder as long as the block lasts; the system lets go when the process dies."""
    with _held(folder / "lock", (folder, "runs here already"), work) as holder:
        (folder / _DOWN).unlink(missing_ok=True)  # of a `down` that was killed
        yield holder


@contextmanager
def only_one_up(store: Path) -> Iterator[None]:
    """Hold the file of a store against a second `proreus up` from another folder; agents may share it."""
    file = store.resolve()
    make_private_folder(file.parent)
    taken = (store, "in another folder runs on this store already")
    with _held(file.with_name(f"{file.name}.lock"), taken, LockPurpose.CLUSTER):
        yield


@contextmanager
def _held(path: Path, taken: tuple[Path, str], work: LockPurpose) -> Iterator[Holder]:
    """taken: what is held, and what to say of whoever holds it already."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorkError(
            f"{path}: cannot be written: {error.strerror}; name another folder with --dir"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _, other = _written(handle).partition(" ")
            what = "an agent" if other == LockPurpose.AGENT.value else "a cluster"
            message = f"{taken[0]}: {what} {taken[1]} (process {holder or 'unknown'})"
            raise WorkError(f"{message}; end it, or name another folder with --dir") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {work.value}\n".encode(), 0)
        about = os.fstat(handle)
        yield Holder(f"{about.st_dev:x}-{about.st_ino:x}")
    finally:
        os.close(handle)


def _written(handle: int) -> str:
    """By whoever holds the file: its process, and what it runs."""
    return os.pread(handle, 64, 0).decode(errors="replace").strip()
