"""A container's image on the node before the container is made, told as a kubelet tells it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from proreus.engine.runtimes import notices
from proreus.engine.runtimes.images.names import is_reference
from proreus.engine.runtimes.machine.backend import Backend, LaunchRefused
from proreus.engine.runtimes.protocol import Notice

PULL_FAILED = "ErrImagePull"
BACKING_OFF = "ImagePullBackOff"
_NEVER = "ErrImageNeverPull"
_NO_NAME = "InvalidImageName"


async def have_image(backend: Backend, container: Mapping[str, Any], tell: Callable[[Notice], None]) -> None:
    """It is there, pulled where that is allowed; one that was imported does for `Always`, too.

    tell: what people are to know meanwhile. Raises `LaunchRefused`.
    """
    image = str(container.get("image") or "")
    if not is_reference(image):
        told = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}"'
        told += ": invalid reference format"
        raise _refused(_NO_NAME, told, Notice("Warning", "InspectFailed", told))
    if await backend.has_image(image):
        tell(notices.present(image))
        return
    if not backend.needs_images:
        return
    if container.get("imagePullPolicy") == "Never":
        told = f'Container image "{image}" is not present with pull policy of Never'
        raise _refused(_NEVER, told, Notice("Warning", _NEVER, told))
    tell(notices.pulling(image))
    began = time.monotonic()
    try:
        size = await backend.pull_image(image)
    except LaunchRefused as error:
        told = str(error)
        raise _refused(PULL_FAILED, told, notices.pull_failed(image, told)) from error
    tell(notices.pulled(image, time.monotonic() - began, size))


def _refused(reason: str, message: str, notice: Notice) -> LaunchRefused:
    return LaunchRefused(reason, message, notice, notices.failed(reason))
