"""What cannot be read at once, looked at from time to time: files that pods have written, networks, GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from proreus.engine.kubelet.usage.disk import DiskMeter
from proreus.engine.kubelet.usage.pod_meter import PodMeter
from proreus.engine.runtimes.gpus import look_at_gpus
from proreus.engine.runtimes.protocol import GpuUse

LOOK_SECONDS = 10.0
_LOOKS_PER_WALK = 3
"""Files are walked through once in so many looks."""
Place = tuple[str, str]
"""A pod and a container of it; "" for its volumes."""
VOLUMES = ""


class UsageSampler:
    """Numbers of the last look; `run` looks for ever.

    places: the folders of each running container and of its pod's volumes; layers: further bytes of each;
    pods: what is found by pods' processes.
    """

    def __init__(
        self,
        places: Callable[[], Mapping[Place, tuple[Path, ...]]],
        layers: Callable[[], Awaitable[Mapping[Place, int]]],
        pods: PodMeter,
    ) -> None:
        self._places, self._layers, self._pods = places, layers, pods
        self._meter: DiskMeter[Place] = DiskMeter()
        self.disk: Mapping[Place, int] = {}
        self.gpus: tuple[GpuUse, ...] = ()

    async def run(self) -> None:
        """Look, wait, look again, until cancelled."""
        look = 0
        while True:
            if look % _LOOKS_PER_WALK == 0:
                await self.walk()
            await self.look_at_devices()
            look += 1
            await asyncio.sleep(LOOK_SECONDS)

    async def look_at_devices(self) -> None:
        """What GPUs do, and what pods have sent and received, by now."""
        self.gpus = await look_at_gpus()
        await self._pods.look(self.gpus)

    async def walk(self) -> None:
        """How much has been written by now."""
        await asyncio.to_thread(self._meter.look, dict(self._places()))
        more = await self._layers()
        self.disk = {place: size + more.get(place, 0) for place, size in self._meter.bytes.items()}
