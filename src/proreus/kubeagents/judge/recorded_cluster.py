"""A folder that `kube import` wrote as work for the world `pods`: as it was, or other weeks of its kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from proreus.kube.manifests import read_manifests
from proreus.kubeagents.judge.scenario_folder import NODES_FILE, PODS_FILE, read_about
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.engine_trace import TraceReplay, drawn_anew


@dataclass(frozen=True)
class RecordedCluster:
    """Seed 0 is as recorded; other seeds draw what arrives from what arrived, at the same moments."""

    folder: Path

    @property
    def name(self) -> str:
        """That of the folder."""
        return f"kube:{self.folder.name}"

    def load(self, seed: int) -> Workload:
        """The recorded pods, or as many drawn from them."""
        replay = _replay(self.folder)
        if seed == 0:
            return replay.workload
        drawn, length = drawn_anew(replay, seed), replay.end - replay.begin
        # What had not ended ends with the time that is looked at, whenever it comes.
        pods = (replace(pod, duration=min(pod.duration, length - pod.arrival)) for pod in drawn.pods)
        return replace(drawn, pods=tuple(pods))


@lru_cache(maxsize=2)
def _replay(folder: Path) -> TraceReplay:
    about = read_about(folder)
    workload = read_manifests([folder / NODES_FILE, folder / PODS_FILE])
    lasted = tuple(pod.duration for pod in workload.pods)
    return TraceReplay(workload, about.begin, about.end, about.stay, 0, 0, 0, lasted, 0)
