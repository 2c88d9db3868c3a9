"""A container's image on the node before the container is made, told as a kubelet tells it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proreus.engine.runtimes import container_events
from proreus.engine.runtimes.backend import Backend, LaunchRefused
from proreus.engine.runtimes.images.builder import MACHINE_PYTHON, pack_python
from proreus.engine.runtimes.images.reference import full_name, is_reference
from proreus.engine.runtimes.protocol import Notice
from proreus.model.errors import ProreusError

PULL_FAILED = "ErrImagePull"
BACKING_OFF = "ImagePullBackOff"
_NEVER = "ErrImageNeverPull"
_NO_NAME = "InvalidImageName"


async def have_image(
    backend: Backend, container: Mapping[str, Any], tell: Callable[[Notice], None], making: asyncio.Lock
) -> None:
    """It is there, pulled where that is allowed; one that was imported does for `Always`, too.

    tell: what people are to know meanwhile; making: held while the node makes an image of its own. Raises
    `LaunchRefused`.
    """
    image = str(container.get("image") or "")
    if not is_reference(image):
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}"'
        message += ": invalid reference format"
        raise _refused(_NO_NAME, message, Notice("Warning", "InspectFailed", message))
    if await backend.has_image(image):
        tell(container_events.present(image))
        return
    if not backend.needs_images:
        return
    if container.get("imagePullPolicy") == "Never":
        message = f'Container image "{image}" is not present with pull policy of Never'
        raise _refused(_NEVER, message, Notice("Warning", _NEVER, message))
    tell(container_events.pulling(image))
    began = time.monotonic()
    try:
        own = full_name(image) == MACHINE_PYTHON
        size = await (_make_python(backend, making) if own else backend.pull_image(image))
    except LaunchRefused as error:
        message = str(error)
        raise _refused(PULL_FAILED, message, container_events.pull_failed(image, message)) from error
    tell(container_events.pulled(image, time.monotonic() - began, size))


async def _make_python(backend: Backend, making: asyncio.Lock) -> int:
    """This machine's Python as an image, once, however many want it; raises `LaunchRefused`."""
    async with making:
        if await backend.has_image(MACHINE_PYTHON):  # another container's attempt was faster
            return sum(image.size for image in backend.images() if MACHINE_PYTHON in image.names)
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder, "python.tar")
            try:
                await asyncio.to_thread(pack_python, archive)
                images = await backend.import_image(archive, MACHINE_PYTHON)
            except (ProreusError, OSError) as error:
                raise LaunchRefused(PULL_FAILED, f"making {MACHINE_PYTHON}: {error}") from error
    return sum(image.size for image in images)


def _refused(reason: str, message: str, notice: Notice) -> LaunchRefused:
    return LaunchRefused(reason, message, notice, container_events.failed(reason))
