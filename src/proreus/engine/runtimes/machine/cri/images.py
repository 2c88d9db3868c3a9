"""The images of containerd: seen and pulled through CRI, imported by its own tool."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import grpc

from proreus.engine.runtimes.images.repacking import repack
from proreus.engine.runtimes.machine.backend import LaunchRefused
from proreus.engine.runtimes.machine.cri import cri_pb2 as cri
from proreus.engine.runtimes.machine.cri.calls import CriCalls, details
from proreus.engine.runtimes.machine.cri.tool import Ctr
from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.protocol import Image
from proreus.model.errors import UsageError, WorkError

_POLL_SECONDS = 0.2
_IMPORT_SECONDS, _SHOW_SECONDS = 600.0, 30.0


class CriImages:
    """As of the last look."""

    def __init__(self, calls: CriCalls, ctr: Ctr, options: MachineOptions) -> None:
        self._cri, self._ctr, self._options = calls, ctr, options
        self.held: Sequence[Image] = []

    async def look(self) -> None:
        """What is held now; raises `grpc.aio.AioRpcError`."""
        answer = await self._cri.call("ListImages", cri.ListImagesRequest())
        self.held = [Image((*one.repo_tags, *one.repo_digests, one.id), one.size) for one in answer.images]

    async def has(self, name: str) -> bool:
        """Whether it is there; raises `LaunchRefused`."""
        return await self._status(name, "ImageInspectError") is not None

    async def pull(self, name: str) -> int:
        """Have containerd fetch it; its size. Raises `LaunchRefused`."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name))
        try:
            await self._cri.call("PullImage", request, _IMPORT_SECONDS)
            await self.look()
        except grpc.aio.AioRpcError as error:
            raise LaunchRefused("ErrImagePull", details(error)) from error
        found = await self._status(name, "ErrImagePull")
        return 0 if found is None else int(found.size)

    async def _status(self, name: str, reason: str) -> cri.Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        try:
            status = await self._cri.call("ImageStatus", request)
        except grpc.aio.AioRpcError as error:
            raise LaunchRefused(reason, details(error)) from error
        return status.image if status.HasField("image") else None

    async def import_archive(self, path: Path, name: str) -> Sequence[Image]:
        """Checked and made anew, then given to containerd's own tool: CRI has no import."""
        if self._ctr.missing:
            raise UsageError("importing images into containerd needs its tool `ctr`")
        target = self._options.root / f"import-{os.getpid()}-{id(path)}.tar"
        try:
            names = await asyncio.to_thread(repack, path, name, target, self._options.most_image_bytes)
            words = ("images", "import", "--no-unpack", str(target))
            done = await self._ctr.run(*words, seconds=_IMPORT_SECONDS)
        finally:
            target.unlink(missing_ok=True)
        if done.exit_code != 0:
            raise WorkError(f"{path}: containerd: {done.stderr.decode(errors='replace').strip()[-500:]}")
        end = time.monotonic() + _SHOW_SECONDS
        told = ""
        while time.monotonic() < end:  # CRI learns of images by an event, a moment later
            try:
                await self.look()
            except grpc.aio.AioRpcError as error:
                told = f": {details(error)}"
            found = [image for image in self.held if set(names) & set(image.names)]
            if found:
                return found
            await asyncio.sleep(_POLL_SECONDS)
        raise WorkError(f"{path}: containerd does not show {names[0]}{told}")

    async def remove(self, name: str) -> bool:
        """Whether it was there; raises `UsageError` where a container is made of it."""
        spec = cri.ImageSpec(image=name)
        try:
            status = await self._cri.call("ImageStatus", cri.ImageStatusRequest(image=spec))
            standing = await self._cri.call("ListContainers", cri.ListContainersRequest())
            if any(one.image_ref == status.image.id for one in standing.containers if status.image.id):
                raise UsageError(f"image {name!r} is in use by a container")
            await self._cri.call("RemoveImage", cri.RemoveImageRequest(image=spec))
            await self.look()
        except grpc.aio.AioRpcError as error:
            raise WorkError(f"containerd: {details(error)}") from error
        return bool(status.HasField("image"))
