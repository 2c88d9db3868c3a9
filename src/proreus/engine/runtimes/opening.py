"""A real runtime by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable

from proreus.engine.runtimes.images.store import ImageStore
from proreus.engine.runtimes.machine.backend import Backend
from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.machine.process import ProcessBackend
from proreus.engine.runtimes.machine.runc import RuncBackend
from proreus.engine.runtimes.machine.runtime import MachineRuntime
from proreus.model.errors import UsageError, needs_extra, unknown_name

_log = logging.getLogger(__name__)
_KEPT: dict[str, Callable[[MachineOptions, ImageStore], Backend]] = {
    "process": ProcessBackend,
    "runc": RuncBackend,
}
NAMES = ("auto", "process", "runc", "containerd")


async def open_runtime(name: str, options: MachineOptions) -> MachineRuntime:
    """The runtime, with what an earlier one on the same folder left running; raises `UsageError`.

    "auto" is the first of containerd, runc and process that works here.
    """
    if name not in NAMES:
        raise unknown_name("runtime", name, NAMES)
    options.root.mkdir(parents=True, exist_ok=True)
    if name == "auto":
        for better in ("containerd", "runc"):
            try:
                return await open_runtime(better, options)
            except UsageError as error:
                _log.info("%s", error)
        name = "process"
    if name == "containerd":
        return await MachineRuntime.opened(_containerd(options), options)
    return await MachineRuntime.opened(_KEPT[name](options, image_store(options)), options)


def _containerd(options: MachineOptions) -> Backend:
    try:  # gRPC: only who uses containerd needs it
        from proreus.engine.runtimes.machine.containerd import ContainerdBackend
    except ModuleNotFoundError as error:
        raise UsageError(f"the runtime containerd {needs_extra('engine')}") from error
    if not options.socket.is_socket():
        raise UsageError(f"there is no containerd at {options.socket}")
    return ContainerdBackend(options)


def image_store(options: MachineOptions) -> ImageStore:
    """The images below the runtime's root; containerd keeps its own."""
    return ImageStore(options.root / "images", options.most_image_bytes, options.image_bytes)
