"""The agent's side of keepers: starts them, finds them again, waits for them, tells them to stop."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.backend import KILLED, UNKNOWN_END, ContainerExit, Launched, LaunchRefused
from proreus.engine.runtimes.shim import shim

_SCRIPT = str(Path(shim.__file__).resolve())
COMMAND = (sys.executable, "-I", "-S", _SCRIPT)
_NOTE_SECONDS = 10.0
"""A keeper that lives has written its note long before."""
_MOST_TOLD = 64 * 1024


async def launch(folder: Path, spec: dict[str, Any]) -> Launched:
    """A keeper for this folder, and its container started; raises `LaunchRefused`."""
    shim.write_note(folder / shim.SPEC, spec)
    lock = os.open(folder / shim.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    reading, writing = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDWR)
    trouble = os.open(folder / "keeper.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        actions = [
            (os.POSIX_SPAWN_DUP2, nowhere, 0),
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_DUP2, trouble, 2),
            (os.POSIX_SPAWN_DUP2, lock, 3),
        ]
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        arguments = (*COMMAND, str(folder))
        pid = os.posix_spawn(sys.executable, arguments, environment, file_actions=actions, setsid=True)
    except OSError as error:
        os.close(reading)
        raise LaunchRefused("RunContainerError", f"starting the container's keeper: {error}") from error
    finally:
        for fd in (lock, writing, nowhere, trouble):
            os.close(fd)
    first = await _read_all(reading)
    document = json.loads(first) if first else {}
    if "started" in document:
        return Launched(str(folder), document["started"])
    if not document:  # it never came to its own first note
        await asyncio.to_thread(os.waitpid, pid, 0)
    return Launched(str(folder), time.time(), await wait(folder))


async def _read_all(fd: int) -> bytes:
    """What the other end writes before it closes."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    parts: list[bytes] = []
    done: asyncio.Future[None] = loop.create_future()

    def more() -> None:
        data = os.read(fd, _MOST_TOLD)
        parts.append(data)
        if not data and not done.done():
            done.set_result(None)

    loop.add_reader(fd, more)
    try:
        await done
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return b"".join(parts)


def lives(folder: Path) -> bool:
    """Whether a keeper holds this folder: nobody else ever locks it for longer than this look."""
    try:
        fd = os.open(folder / shim.LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def find(folder: Path) -> Launched | None:
    """What an earlier agent began here; None where nothing ever came of it."""
    note = _note(folder / shim.KEEPER)
    ended = ending(folder)
    if note is None and ended is None and not lives(folder):
        return None
    started = (note or {}).get("started") or time.time()
    return Launched(str(folder), started, None if lives(folder) else ended)


def ending(folder: Path) -> ContainerExit | None:
    """How it ended, where the keeper has left a note of it."""
    note = _note(folder / shim.EXIT)
    return (
        None
        if note is None
        else ContainerExit(note["code"], note["reason"], note["message"], note["finished"])
    )


async def wait(folder: Path) -> ContainerExit:
    """Until the keeper is gone; where it was killed itself, how the container ended is not known."""
    pidfd = await _pidfd(folder)
    if pidfd is not None:
        try:
            await _readable(pidfd)
        finally:
            os.close(pidfd)
        _reap(folder)
    unseen = ContainerExit(KILLED, UNKNOWN_END, "the container's keeper was killed", time.time())
    return ending(folder) or unseen


async def stop(folder: Path, grace: float) -> None:
    """Tell the keeper; one that is gone has nothing to stop."""
    pidfd = await _pidfd(folder)
    if pidfd is None:
        return
    try:
        shim.write_note(folder / shim.STOP, {"by": time.monotonic() + grace})
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


async def end_input(folder: Path) -> None:
    """The container's input ends when nobody else has its pipe open."""
    pidfd = await _pidfd(folder)
    if pidfd is None:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGUSR1)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def clear_away(folder: Path, cgroups: list[str]) -> None:
    """Kill the keeper and whatever it kept, at once; blocks until they are gone."""
    note = _note(folder / shim.KEEPER) or {}
    pid = int(note.get("pid") or 0)
    until = time.monotonic() + _NOTE_SECONDS
    while time.monotonic() < until:
        alive = bool(pid) and lives(folder) and shim.start_time(pid) == note["start"]
        processes = marked(str(folder)) | shim.members(cgroups)
        processes |= set(shim.descendants(pid)) if alive else set()
        if alive:
            processes.add(pid)
        if not processes:
            break
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap(folder)
        time.sleep(0.005)
    shim.remove_cgroups(cgroups)


MARK = "PROREUS_CONTAINER"
"""The environment variable that names a container's folder: its processes are found by it where nothing else
holds them together."""


def marked(value: str) -> set[int]:
    """The processes, zombies aside, whose environment has the mark with this value."""
    wanted = f"{MARK}={value}".encode()
    numbers: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                numbers.add(int(entry.name))
        except OSError:  # it is gone, or another user's
            continue
    return numbers


async def _pidfd(folder: Path) -> int | None:
    """The keeper's process; None where it is gone. One that has only just started is waited for."""
    until = time.monotonic() + _NOTE_SECONDS
    while True:
        alive = lives(folder)
        note = _note(folder / shim.KEEPER)
        if note is not None:
            try:
                fd = os.pidfd_open(note["pid"])
            except ProcessLookupError:
                return None
            if shim.start_time(note["pid"]) == note["start"]:
                return fd
            os.close(fd)
            return None
        if not alive or time.monotonic() > until:
            return None
        await asyncio.sleep(0.01)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def gone() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_reader(fd, gone)
    try:
        await done
    finally:
        loop.remove_reader(fd)


def _reap(folder: Path) -> None:
    """A keeper that is this process's child leaves no zombie."""
    note = _note(folder / shim.KEEPER)
    if note is not None:
        try:
            os.waitpid(note["pid"], os.WNOHANG)
        except ChildProcessError:
            return


def _note(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return document
