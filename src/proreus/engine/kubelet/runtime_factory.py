"""A real runtime by its name."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.runtimes.backend import Backend
from proreus.engine.runtimes.images.store import ImageStore
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.process.backend import ProcessBackend
from proreus.engine.runtimes.runc.backend import RuncBackend, find_runc
from proreus.model.errors import UsageError, needs_extra, unknown_name
from proreus.model.files import write_atomically

_log = logging.getLogger(__name__)
_KEPT: dict[str, Callable[[MachineOptions, ImageStore], Backend]] = {
    "process": ProcessBackend,
    "runc": RuncBackend,
}
NAMES = ("auto", "process", "runc", "containerd")
_GRACE_SECONDS, _LOOK_SECONDS = 10.0, 0.05
_CHOSEN = "runtime"
"""The file below a runtime's root that names its kind, and where containerd answers."""


def check_runtime(name: str, options: MachineOptions) -> None:
    """Raise `UsageError` for what can be told at once; opening may still find more."""
    if name not in NAMES:
        raise unknown_name("runtime", name, NAMES)
    if sys.platform != "linux":
        raise UsageError("only a Linux machine can be a node; --nodes N simulates some")
    if name == "containerd":
        _check_socket(options.socket)
    if name == "runc":
        find_runc()


def _check_socket(socket: Path) -> None:
    try:
        there = socket.is_socket()
    except PermissionError:
        raise UsageError(
            f"this user may not see whether containerd answers at {socket}; the runtime `process` needs "
            "no root"
        ) from None
    if not there:
        started = "; it is installed but does not run" if shutil.which("containerd") else ""
        raise UsageError(f"there is no containerd at {socket}{started}")
    if not os.access(socket, os.W_OK):
        raise UsageError(
            f"containerd at {socket} does not answer this user; the runtime `process` needs no root"
        )


async def open_runtime(name: str, options: MachineOptions) -> MachineRuntime:
    """The runtime, with what an earlier one on the same folder left running; raises `UsageError`.

    "auto" is the one whose pods stand in the folder, or else the first of containerd, runc and process that
    works here; who answers but could not run a pod is left out, and `passed_over` says why. Where another is
    named than theirs, those pods end first: nobody would look after them.
    """
    check_runtime(name, options)
    options.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    standing = standing_runtime(options.root)
    if standing and name == "auto":
        try:
            return await _opened(standing, options)
        except UsageError as error:
            raise UsageError(f"{error}; pods of this node stand there") from error
    if standing and name != standing:
        count = await clear_runtime(options)
        _log.warning("%d containers of the runtime %s were ended: %s runs them anew", count, standing, name)
    return await (_best(options) if name == "auto" else _opened(name, options))


async def _best(options: MachineOptions) -> MachineRuntime:
    """The first runtime that can run a pod here; it says why those before it were passed over."""
    passed_over: list[str] = []
    for name in ("containerd", "runc"):
        try:
            check_runtime(name, options)
            runtime = await _opened(name, options)
        except UsageError as error:
            passed_over.append(str(error))
            continue
        why = await runtime.unready()
        if not why:
            break
        passed_over.append(why)
        await runtime.close()
    else:
        runtime = await _opened("process", options)
    runtime.passed_over = tuple(passed_over)
    return runtime


def standing_runtime(root: Path) -> str:
    """The runtime whose pods stand below this root; "" where there are none."""
    pods = root / "pods"
    if not (pods.is_dir() and any(pods.iterdir())):
        return ""
    name = _noted(root)[0]
    return name if name in NAMES else ""


def noted_socket(root: Path) -> Path | None:
    """Where containerd answered whose pods stand below this root; None where it was not containerd."""
    socket = _noted(root)[1]
    return Path(socket) if socket else None


def _noted(root: Path) -> tuple[str, str]:
    """The runtime that was opened last below this root, and the socket that it was reached at."""
    try:
        name, _, socket = (root / _CHOSEN).read_text().strip().partition(" ")
    except OSError:  # nothing was noted; what is wrong with the folder is told by whoever makes it
        return "", ""
    return name, socket


async def clear_runtime(options: MachineOptions) -> int:
    """End all pods of whichever runtime stands in the folder, and leave nothing of them.

    Returns how many containers ran.
    """
    standing = standing_runtime(options.root)
    if not standing:
        return 0
    runtime = await _opened(standing, options)
    try:
        uids = [report.uid for report in runtime.adopt(())]
        for uid in uids:
            runtime.stop(uid, _GRACE_SECONDS)
        running = runtime.running()
        while runtime.running():
            await asyncio.sleep(_LOOK_SECONDS)
        for uid in uids:
            runtime.remove(uid)
        await runtime.settled()
    finally:
        await runtime.close()
    return running


async def _opened(name: str, options: MachineOptions) -> MachineRuntime:
    kept = _KEPT.get(name)
    backend = _containerd(options) if kept is None else kept(options, image_store(options))
    try:
        runtime = await MachineRuntime.opened(backend, options)
    except BaseException:
        await backend.close()
        raise
    reached = f" {options.socket}" if name == "containerd" else ""
    write_atomically(options.root / _CHOSEN, f"{name}{reached}\n".encode(), private=True)
    return runtime


def _containerd(options: MachineOptions) -> Backend:
    try:  # gRPC: only who uses containerd needs it
        from proreus.engine.runtimes.containerd.backend import ContainerdBackend
    except ModuleNotFoundError as error:
        raise UsageError(f"the runtime containerd {needs_extra('engine')}") from error
    check_runtime("containerd", options)
    return ContainerdBackend(options)


def image_store(options: MachineOptions) -> ImageStore:
    """The images below the runtime's root; containerd keeps its own."""
    return ImageStore(options.root / "images", options.most_image_bytes, options.image_bytes)
