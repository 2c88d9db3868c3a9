"""What the pods of a runtime use, each by itself and the machine as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from proreus.engine.kubelet.pod_record import PodRecord
from proreus.engine.kubelet.termination_message import FOLDER
from proreus.engine.kubelet.usage.node_meter import NodeMeter
from proreus.engine.kubelet.usage.pod_meter import PodMeter
from proreus.engine.kubelet.usage.rates import Rates
from proreus.engine.kubelet.usage.sampler import VOLUMES, Place, UsageSampler
from proreus.engine.runtimes.backend import Backend
from proreus.engine.runtimes.protocol import NodeUse, Phase, PodUse, Use


class PodUsage:
    """Of the pods that stand now, each in its folder below `folder`."""

    def __init__(self, backend: Backend, folder: Path, pods: Mapping[str, PodRecord]) -> None:
        self._backend, self._folder, self._pods = backend, folder, pods
        self._rates = Rates(backend.spent)
        self._node = NodeMeter(folder.parent)
        self._meter = PodMeter(self._processes, self._gpus)
        self.looking = UsageSampler(self._written_to, self._layers, self._meter)

    def stats(self) -> Sequence[Use]:
        """What containers used since this was last asked."""
        return self._rates.of(self._ids(), self.looking.disk)

    def pod_stats(self) -> Sequence[PodUse]:
        """Their volumes, GPUs, and the network where it is their own, as of the last look."""
        sizes, traffic, gpus = self.looking.disk, self._meter.traffic, self._meter.gpus
        pod_uses = [
            PodUse(uid, sizes.get((uid, VOLUMES), 0), traffic.get(uid), gpus.get(uid, ()))
            for uid in sorted(self._pods)
        ]
        return [pod_use for pod_use in pod_uses if pod_use != PodUse(pod_use.uid)]

    def node_stats(self) -> NodeUse:
        """The whole machine's."""
        return replace(self._node.read(), gpus=self.looking.gpus)

    def _ids(self) -> dict[Place, str]:
        return {
            (uid, name): standing.ids[name]
            for uid, standing in sorted(self._pods.items())
            for name, report in standing.reports.items()
            if report.phase is Phase.RUNNING and name in standing.ids
        }

    def _processes(self) -> dict[str, set[int]]:
        processes: dict[str, set[int]] = {}
        for (uid, _), id in self._ids().items():
            processes.setdefault(uid, set()).update(self._backend.processes(id))
        return processes

    def _gpus(self) -> dict[str, list[str]]:
        return {uid: [id for ids in pod.gpus.values() for id in ids] for uid, pod in self._pods.items()}

    def _written_to(self) -> dict[Place, tuple[Path, ...]]:
        """Where what pods write comes to stand: of containers the last attempt, with the logs of all."""
        folders: dict[Place, tuple[Path, ...]] = {}
        for uid, standing in self._pods.items():
            folder = self._folder / uid
            folders[uid, VOLUMES] = (folder / "volumes",)
            for name in standing.ids:
                attempt = folder / "containers" / name / str(standing.reports[name].attempt)
                folders[uid, name] = (attempt, folder / "logs" / name, folder / FOLDER / name)
        return folders

    async def _layers(self) -> dict[Place, int]:
        sizes = await self._backend.layers()
        return {place: sizes[id] for place, id in self._ids().items() if id in sizes}
