"""The images of this machine, as the door of the API asks for them: uploaded, imported, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.images.uploads import Uploads
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Image
from proreus.model.errors import UsageError, WorkError


class MachineImages:
    """`NodeImages` of one runtime; `changed` is called when it holds others than before."""

    def __init__(
        self, node: str, runtime: MachineRuntime, options: MachineOptions, changed: Callable[[], None]
    ) -> None:
        self.node, self._runtime, self._changed = node, runtime, changed
        self._uploads = Uploads(options.root / "uploads", options.most_image_bytes)
        self._importing = asyncio.Lock()

    async def begin_upload(self) -> str:
        return await asyncio.to_thread(self._uploads.begin)

    async def add_to_upload(self, upload: str, offset: int, piece: bytes) -> int:
        return await asyncio.to_thread(self._uploads.add, upload, offset, piece)

    async def drop_upload(self, upload: str) -> None:
        await asyncio.to_thread(self._uploads.drop, upload)

    async def import_upload(self, upload: str, name: str) -> Sequence[Image]:
        """The images of the archive that was uploaded, which is gone then; one import at a time."""
        async with self._importing:
            path = self._uploads.path(upload)
            try:
                return await self._runtime.import_image(path, name)
            except UsageError as error:
                raise UsageError(str(error).removeprefix(f"{path}: ")) from error
            except WorkError as error:
                raise WorkError(str(error).removeprefix(f"{path}: ")) from error
            finally:
                await self.drop_upload(upload)
                self._changed()

    async def pull_image(self, name: str) -> int:
        """How many bytes it has; raises `WorkError` where there is no registry, or it does not answer."""
        try:
            return await self._runtime.pull_image(name)
        except LaunchRefused as refused:
            raise WorkError(str(refused)) from refused
        finally:
            self._changed()

    async def remove_image(self, name: str) -> bool:
        """Whether it was there."""
        try:
            return await self._runtime.remove_image(name)
        finally:
            self._changed()
