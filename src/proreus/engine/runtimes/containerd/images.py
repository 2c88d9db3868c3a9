"""The images of containerd: seen and pulled through CRI, imported by its own tool."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import grpc

from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd.cri_client import CriCalls, details
from proreus.engine.runtimes.containerd.ctr import Ctr
from proreus.engine.runtimes.images.reference import full_name
from proreus.engine.runtimes.images.repack import repack
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Image
from proreus.model.errors import UsageError, WorkError

_POLL_SECONDS = 0.2
_IMPORT_SECONDS, _SHOW_SECONDS = 600.0, 30.0
_SANDBOX_SECONDS = 30.0
"""For an image of less than a megabyte; who has no network learns it much sooner."""


class CriImages:
    """As of the last look."""

    def __init__(self, calls: CriCalls, ctr: Ctr, options: MachineOptions) -> None:
        self._cri, self._ctr, self._options = calls, ctr, options
        self.held: Sequence[Image] = []

    async def look(self) -> None:
        """What is held now; raises `grpc.aio.AioRpcError`."""
        answer = await self._cri.call("ListImages", cri.ListImagesRequest())
        self.held = [
            Image((*image.repo_tags, *image.repo_digests, image.id), image.size) for image in answer.images
        ]

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
        status = await self._status(name, "ErrImagePull")
        return 0 if status is None else int(status.size)

    async def missing_sandbox_image(self) -> str:
        """Why containerd can make no sandbox: there is no image for it, nor can it be pulled; "": it can."""
        try:
            answer = await self._cri.call("Status", cri.StatusRequest(verbose=True), _SHOW_SECONDS)
            name = str(json.loads(answer.info.get("config") or "{}").get("sandboxImage") or "")
            if not name or await self.has(name):  # without a name a newer one: it brings its own
                return ""
            request = cri.PullImageRequest(image=cri.ImageSpec(image=name))
            await self._cri.call("PullImage", request, _SANDBOX_SECONDS)
        except (grpc.aio.AioRpcError, LaunchRefused) as error:
            why = details(error) if isinstance(error, grpc.aio.AioRpcError) else str(error)
            return f"containerd cannot have the image of its sandboxes: {why}"
        return ""

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
        why = await self._until(lambda: bool(self._called(names)))
        if why is not None:
            raise WorkError(f"{path}: containerd does not show {names[0]}{why}")
        return self._called(names)

    def _called(self, names: Iterable[str]) -> list[Image]:
        return [image for image in self.held if set(names) & set(image.names)]

    async def _until(self, true: Callable[[], bool]) -> str | None:
        """CRI learns of images by an event, a moment later; where it never does, why, if that is known."""
        end = time.monotonic() + _SHOW_SECONDS
        why = ""
        while time.monotonic() < end:
            try:
                await self.look()
            except grpc.aio.AioRpcError as error:
                why = f": {details(error)}"
            if true():
                return None
            await asyncio.sleep(_POLL_SECONDS)
        return why

    async def _untag(self, name: str) -> None:
        """By containerd's own tool: CRI removes an image with all its names."""
        if self._ctr.missing:
            raise UsageError("removing one of an image's names from containerd needs its tool `ctr`")
        done = await self._ctr.run("images", "remove", name)
        if done.exit_code != 0:
            raise WorkError(f"containerd: {done.stderr.decode(errors='replace').strip()[-500:]}")
        why = await self._until(lambda: not self._called([name]))
        if why is not None:
            raise WorkError(f"containerd still shows {name}{why}")

    async def remove(self, name: str) -> bool:
        """A name, and with the last one the image; whether it was there.

        Raises `UsageError` where a container is made of an image that would go.
        """
        spec = cri.ImageSpec(image=name)
        try:
            status = await self._cri.call("ImageStatus", cri.ImageStatusRequest(image=spec))
            if full_name(name) in status.image.repo_tags and len(status.image.repo_tags) > 1:
                await self._untag(full_name(name))
                return True
            standing = await self._cri.call("ListContainers", cri.ListContainersRequest())
            if any(
                container.image_ref == status.image.id for container in standing.containers if status.image.id
            ):
                raise UsageError(f"image {name!r} is in use by a container")
            await self._cri.call("RemoveImage", cri.RemoveImageRequest(image=spec))
            await self.look()
        except grpc.aio.AioRpcError as error:
            raise WorkError(f"containerd: {details(error)}") from error
        return bool(status.HasField("image"))
