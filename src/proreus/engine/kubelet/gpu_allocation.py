"""Which container has which of the machine's GPUs: none is two containers', and a new agent knows it, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proreus.engine.kubelet.pod_record import PodRecord
from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.backend import GpusGiven, LaunchRefused
from proreus.engine.runtimes.gpus import list_gpus, shared_nodes
from proreus.engine.runtimes.pod_reports import is_over
from proreus.model.resources import GPU

_NOTE = "gpus.json"
"""In the folder of a pod: the ids of the GPUs that its containers have."""


class GpuAllocation:
    """A container has its GPUs, attempt for attempt, until its pod is over or gone.

    folder: has a folder for each pod; devices: below it GPUs are looked for; pods: those that stand now.
    """

    def __init__(self, folder: Path, devices: Path, pods: Mapping[str, PodRecord]) -> None:
        self._folder, self._devices, self._pods = folder, devices, pods
        self._holders: dict[str, PodRecord] = {}
        """Pods with GPUs, those that are being removed included: something of them may still run."""

    def give(self, standing: PodRecord, container: Mapping[str, Any]) -> GpusGiven | None:
        """What the container has from now on; None on a machine without GPUs. Raises `LaunchRefused`."""
        listed = {gpu.id: gpu.node for gpu in list_gpus(self._devices)}
        name, wanted = str(container["name"]), _wanted(container)
        if not listed and not wanted:
            return None
        ids = standing.gpus.get(name, ())
        if len(ids) != wanted or not set(ids) <= set(listed):
            taken = self._taken(standing, name)
            free = [id for id in listed if id not in taken]
            if len(free) < wanted:
                message = f"Requested: {wanted}, Available: {len(free)}, which is unexpected"
                message = (
                    f"Allocate failed due to requested number of devices unavailable for {GPU}. {message}"
                )
                raise LaunchRefused("UnexpectedAdmissionError", message)
            ids = tuple(free[:wanted])
            self._note(standing, name, ids)
        nodes = tuple(listed[id] for id in ids)
        return GpusGiven(ids, (*nodes, *shared_nodes(self._devices)) if ids else ())

    def take_up(self, standing: PodRecord) -> None:
        """What an earlier agent had noted of a pod."""
        try:
            noted = json.loads((self._folder / standing.uid / _NOTE).read_bytes())
        except FileNotFoundError:
            return
        standing.gpus = {name: tuple(ids) for name, ids in noted.items()}
        self._holders[standing.uid] = standing

    def release(self, uid: str) -> None:
        """Nothing is left of the pod."""
        self._holders.pop(uid, None)

    def _taken(self, standing: PodRecord, name: str) -> set[str]:
        """By whomever else; what the pod's own init containers had is the next container's."""
        inits = _passing(standing.pod)
        taken = {
            id for other, ids in standing.gpus.items() if other != name and other not in inits for id in ids
        }
        for uid, pod in self._holders.items():
            if pod is not standing and not (self._pods.get(uid) is pod and _rests(pod)):
                taken.update(id for ids in pod.gpus.values() for id in ids)
        return taken

    def _note(self, standing: PodRecord, name: str, ids: tuple[str, ...]) -> None:
        """On the disk first: an agent that is killed now must not hand them out again."""
        gpus = {**standing.gpus, name: ids}
        note = self._folder / standing.uid / _NOTE
        draft = note.with_suffix(".draft")
        draft.write_text(json.dumps(gpus))
        draft.replace(note)
        standing.gpus = gpus
        self._holders[standing.uid] = standing


def _wanted(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    return max(read_amounts(resources.get(what)).get(GPU, 0) for what in ("limits", "requests"))


def _passing(pod: Mapping[str, Any]) -> set[str]:
    """Init containers that are through before the others begin."""
    inits = pod["spec"].get("initContainers") or ()
    return {str(container["name"]) for container in inits if container.get("restartPolicy") != "Always"}


def _rests(standing: PodRecord) -> bool:
    """Whether nothing of it will run any more."""
    if standing.stopping.is_set():
        return all(report.finished for report in standing.reports.values())
    return is_over(standing.pod, standing.reports)
