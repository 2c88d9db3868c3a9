"""A real runtime by its name."""

from __future__ import annotations

from collections.abc import Callable

from proreus.engine.runtimes.images.store import ImageStore
from proreus.engine.runtimes.machine.backend import Backend
from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.machine.process import ProcessBackend
from proreus.engine.runtimes.machine.runc import RuncBackend
from proreus.engine.runtimes.machine.runtime import MachineRuntime
from proreus.model.errors import unknown_name

_KEPT: dict[str, Callable[[MachineOptions, ImageStore], Backend]] = {
    "process": ProcessBackend,
    "runc": RuncBackend,
}
NAMES = ("process", "runc")


async def open_runtime(name: str, options: MachineOptions) -> MachineRuntime:
    """The runtime, with what an earlier one on the same folder left running; raises `UsageError`."""
    if name not in NAMES:
        raise unknown_name("runtime", name, NAMES)
    options.root.mkdir(parents=True, exist_ok=True)
    return await MachineRuntime.opened(_KEPT[name](options, image_store(options)), options)


def image_store(options: MachineOptions) -> ImageStore:
    """The images below the runtime's root; containerd keeps its own."""
    return ImageStore(options.root / "images", options.most_image_bytes, options.image_bytes)
