"""Which containers of containerd have ended, and whose log is full: all are looked at together, by and by."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from proreus.engine.runtimes.backend import KILLED, UNKNOWN_END, ContainerExit
from proreus.engine.runtimes.containerd import container_status as status_of
from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd.cri_client import CriCalls, details
from proreus.engine.runtimes.containerd.cri_config import OWN
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.shim.shim import put_aside

_POLL_SECONDS, _LOOK_SECONDS = 0.2, 1.0
_AWAY_SECONDS = 5.0
"""So long containerd may not answer before the node counts as unwell: it may be started anew."""
_log = logging.getLogger(__name__)


class ContainerWatch:
    """Belongs to the loop that `run` runs in. came_back: told when containerd answers after it did not."""

    def __init__(self, calls: CriCalls, options: MachineOptions, came_back: Callable[[], None]) -> None:
        self._cri, self._options, self._came_back = calls, options, came_back
        self.trouble = ""
        """See `PodRuntime.trouble`."""
        self.logs: dict[str, Path] = {}
        """Where the output of each container is, by its id."""
        self._waiting: dict[str, asyncio.Future[ContainerExit]] = {}
        self._something = asyncio.Event()

    async def wait(self, id: str) -> ContainerExit:
        """Until it has ended."""
        if id not in self._waiting:
            self._waiting[id] = asyncio.get_running_loop().create_future()
            self._something.set()
        return await asyncio.shield(self._waiting[id])

    async def run(self) -> None:
        """For ever; a containerd that is away is waited for."""
        looked = 0.0
        failing: float | None = None
        while True:
            if not self._waiting:
                self._something.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._something.wait(), _LOOK_SECONDS)
            try:
                await self._look()
                if failing is not None:
                    self._came_back()
                self.trouble, failing = "", None
                if time.monotonic() - looked > _LOOK_SECONDS:
                    looked = time.monotonic()
                    await self._turn_logs_over()
            except grpc.aio.AioRpcError as error:
                failing = failing or time.monotonic()
                if time.monotonic() - failing > _AWAY_SECONDS:
                    self.trouble = f"container runtime is down: {details(error)}"
                await asyncio.sleep(_LOOK_SECONDS)
            except OSError as error:  # a full disk, or a log that went with its pod: go on looking
                _log.warning("turning logs over: %s", error)
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> None:
        wanted = cri.ContainerFilter(label_selector={OWN: self._options.own_name})
        answer = await self._cri.call("ListContainers", cri.ListContainersRequest(filter=wanted))
        states = {container.id: container.state for container in answer.containers}
        for id in list(self._waiting):
            if states.get(id) in (cri.CONTAINER_RUNNING, cri.CONTAINER_CREATED):
                continue
            gone = ContainerExit(KILLED, UNKNOWN_END, "the container is gone", time.time())
            ended = await self._ended(id) if id in states else gone
            future = self._waiting.pop(id)
            if not future.done():
                future.set_result(ended or gone)

    async def _ended(self, id: str) -> ContainerExit | None:
        answer = await self._cri.call("ContainerStatus", cri.ContainerStatusRequest(container_id=id))
        return status_of.ended(answer.status)

    async def _turn_logs_over(self) -> None:
        for id in list(self._waiting):
            log = self.logs.get(id)
            if log is None or not log.parent.exists():
                continue  # its pod is being removed
            if log.exists():
                if log.stat().st_size <= self._options.log_bytes:
                    continue
                put_aside(str(log), self._options.log_files)
            # One that is not there was put aside while containerd did not answer: it writes to the old one.
            with contextlib.suppress(grpc.aio.AioRpcError):  # it is done again anyway
                await self._cri.call("ReopenContainerLog", cri.ReopenContainerLogRequest(container_id=id))
