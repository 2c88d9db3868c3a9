"""The flags that say which workload to run, shared by every verb of the world `pods`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from proreus.contract.metavar import metavar
from proreus.model.errors import UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.pods.scenarios import FileFormat, FromFiles, PodScenario, Resampled, parse_scenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.traces.generate import PRESETS

_FORMATS: dict[str, FileFormat] = {
    ".yaml": "manifests",
    ".yml": "manifests",
    ".json": "manifests",
    ".csv": "openb",
}
"""What a file is read as where --format says nothing."""


@dataclass(frozen=True)
class PodsFlags:
    """Where the work comes from, and what happens to pods that find no room."""

    scenario: str = ""
    """small (the default), medium, large, gpu: generated (gpu@1000: so many nodes); or a dataset."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    format: FileFormat | None = None
    """Read your own files in this format, in place of a scenario."""
    nodes: Annotated[Path | None, metavar("FILE")] = None
    """With --format: the nodes (openb, k8ssim, manifests)."""
    pods: Annotated[Path | None, metavar("FILE")] = None
    """With --format: the pods or jobs."""
    throughputs: Annotated[Path | None, metavar("FILE")] = None
    """With --format gavel: the measured throughputs."""
    drop_failures: bool | None = None
    """Drop a pod that no node can take now (default: as the scenario has it) and do not keep it waiting."""

    @property
    def by_itself(self) -> bool:
        """Whether they describe a scenario, without a name beside them."""
        return bool(self.scenario or self.format)

    def chosen(self, name: str | None = None) -> PodScenario:
        """The scenario that the flags describe; `name` in place of `--scenario`."""
        scenario = self._files() if self.format is not None else self._named(name or self.scenario or "small")
        if self.format is not None and (name or self.scenario):
            raise UsageError("--format reads your own files: leave out the scenario")
        if self.drop_failures is None:
            return scenario
        return replace(scenario, options=replace(scenario.options, drop_failures=self.drop_failures))

    def drawing(self, given: str) -> PodScenario:
        """Work that is another for every seed: a scenario by name, or a file of pods, or a folder with one
        and a file of nodes; of files, pods are drawn until the nodes are full."""
        path = Path(given)
        if not path.exists() and self.format is None and path.suffix not in _FORMATS:
            return self.chosen(given)
        pods, nodes = _files_in(path, self.nodes) if path.is_dir() else (path, self.nodes)
        kind = self.format or _FORMATS.get(pods.suffix)
        if kind is None:
            raise UsageError(f"--from {given}: say with --format what it is")
        files = FromFiles(kind, pods, nodes, self.throughputs)
        return PodScenario(Resampled(files), PodsOptions(drop_failures=True))

    def _files(self) -> PodScenario:
        assert self.format is not None, "checked by the caller"
        if self.pods is None:
            raise UsageError(f"--format {self.format} needs --pods FILE")
        return PodScenario(FromFiles(self.format, self.pods, self.nodes, self.throughputs), PodsOptions())

    def _named(self, name: str) -> PodScenario:
        if self.nodes or self.pods or self.throughputs:
            raise UsageError("--nodes, --pods and --throughputs go with --format")
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = self.data is not None or name.partition("@")[0] not in PRESETS
        return parse_scenario(name, data_dir(self.data) if needed else None)


def _files_in(folder: Path, nodes: Path | None) -> tuple[Path, Path | None]:
    """(file of pods, file of nodes): the one with "node" in its name is that of nodes."""
    found = sorted(file for file in folder.iterdir() if file.suffix in _FORMATS)
    named = [file for file in found if "node" in file.name]
    others = [file for file in found if file not in named]
    if len(others) != 1 or (nodes is None and len(named) > 1):
        raise UsageError(
            f"--from {folder}: a folder holds one file of pods and one with 'node' in its name, and this one "
            f"{', '.join(file.name for file in found) or 'none that can be read'}"
        )
    return others[0], nodes or next(iter(named), None)
