"""Volumes, looked at while their pods run: have their objects changed, do they hold too much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proreus.engine.kubelet.container_plan import Planner
from proreus.engine.kubelet.pod_record import PodRecord
from proreus.engine.kubelet.usage.sampler import UsageSampler
from proreus.engine.kubelet.volumes.storage_limits import is_bounded, overfull
from proreus.engine.objects.kinds import Kind
from proreus.engine.runtimes.config_refs import References

_log = logging.getLogger(__name__)
_OVERFULL = "overfull"
"""In the folder of a pod: which limit it was found to be beyond."""


class ReferenceCache:
    """Asks for every object once, however many pods refer to it."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._found: dict[tuple[Kind, str, str], Mapping[str, Any] | None] = {}

    async def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        wanted = (kind, namespace, name)
        if wanted not in self._found:
            self._found[wanted] = await self._references.find(kind, namespace, name)
        return self._found[wanted]


class VolumeRefresh:
    """Of the pods that stand now, each in its folder below `folder`; tell: reports how a pod is now."""

    def __init__(
        self,
        pods: Mapping[str, PodRecord],
        folder: Path,
        planner: Planner,
        looking: UsageSampler,
        tell: Callable[[PodRecord], None],
    ) -> None:
        self._pods, self._folder, self._planner = pods, folder, planner
        self._looking, self._tell = looking, tell

    async def run(self, seconds: float, references: References) -> None:
        """Look, wait, look again, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            known = ReferenceCache(references)
            for standing in list(self._pods.values()):
                try:
                    await self._look(standing, known)
                except Exception as error:  # noqa: BLE001 - a full disk, a fault of ours: others are followed on
                    _log.warning("volumes of pod %s", standing.uid, exc_info=error)

    async def _look(self, standing: PodRecord, references: References) -> None:
        def stands() -> bool:
            return self._pods.get(standing.uid) is standing and not standing.stopping.is_set()

        if not stands():
            return
        await self._planner.volumes(standing, references).follow(stands)
        if is_bounded(standing.pod) and not standing.overfull and stands():
            volumes, disk = self._folder / standing.uid / "volumes", self._looking.disk
            written = {name: disk.get((standing.uid, name), 0) for name in standing.ids}
            standing.overfull = await asyncio.to_thread(overfull, standing.pod, volumes, written)
            if standing.overfull:
                self._note(standing)
                self._tell(standing)

    def take_up(self, standing: PodRecord) -> None:
        """What an earlier agent had found of a pod: it is not to be begun again meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            standing.overfull = (self._folder / standing.uid / _OVERFULL).read_text()

    def _note(self, standing: PodRecord) -> None:
        if self._pods.get(standing.uid) is standing:
            (self._folder / standing.uid / _OVERFULL).write_text(standing.overfull)
