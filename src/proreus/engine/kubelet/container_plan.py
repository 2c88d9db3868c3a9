"""From a container's spec to everything that a backend needs to know to run it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proreus.engine.kubelet.capacity import machine_capacity
from proreus.engine.kubelet.container_env import ALLOCATABLE, environment, expanded_all
from proreus.engine.kubelet.gpu_allocation import GpuAllocation
from proreus.engine.kubelet.pod_record import PodRecord
from proreus.engine.kubelet.termination_message import stand_message
from proreus.engine.kubelet.volumes.pod_volumes import Volumes
from proreus.engine.runtimes.backend import ContainerPlan
from proreus.engine.runtimes.config_refs import References
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.pod_reports import container_of

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


class Planner:
    """Looks up what specs refer to; `folder` has a folder for each pod."""

    def __init__(
        self, folder: Path, options: MachineOptions, gpus: GpuAllocation, *, own_files: bool
    ) -> None:
        self._folder, self._options, self._gpus, self._own_files = folder, options, gpus, own_files

    async def plan(self, standing: PodRecord, name: str) -> ContainerPlan:
        """The attempt that is due; its volumes stand then. Raises `LaunchRefused`."""
        container, references = container_of(standing.pod, name), self._options.references
        volumes = self.volumes(standing, references)
        variables = await environment(standing.pod, container, references, volumes.facts)
        mounts = await volumes.mounts(container, variables)
        message = stand_message(self._folder / standing.uid, container, standing.reports[name].attempt)
        if message.target not in {mount.target for mount in mounts}:
            mounts = (*mounts, message)
        gpus = self._gpus.give(standing, container)
        if gpus is not None:
            variables[_VISIBLE] = gpus.visible
        return ContainerPlan(
            standing.pod,
            container,
            standing.reports[name].attempt,
            expanded_all(container.get("command"), variables),
            expanded_all(container.get("args"), variables),
            variables,
            mounts,
            gpus,
        )

    def _allocatable(self) -> Mapping[str, str]:
        """What pods may have of this machine."""
        return machine_capacity(self._options, "").allocatable

    def volumes(self, standing: PodRecord, references: References) -> Volumes:
        """The pod's."""
        return Volumes(
            self._folder / standing.uid / "volumes",
            standing.pod,
            references,
            {
                "status.podIP": standing.address,
                "status.hostIP": self._options.address,
                **{f"{ALLOCATABLE}{resource}": amount for resource, amount in self._allocatable().items()},
            },
            self._options.host_paths,
            self._own_files,
        )
