"""The flags that say which workload to run, shared by every verb of the world `pods`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from proreus.contract.flags import metavar
from proreus.contract.world import GIVEN
from proreus.model.errors import UsageError
from proreus.worlds.pods.datasets.engine_trace import moment_of
from proreus.worlds.pods.scenarios import (
    FileFormat,
    FromEngine,
    FromFiles,
    PodScenario,
    Resampled,
    named_scenario,
)
from proreus.worlds.pods.simulation.world import PodsOptions

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
    format: FileFormat | Literal["engine"] | None = None
    """Read your own files in this format, in place of a scenario; engine: what a cluster recorded."""
    nodes: Annotated[Path | None, metavar("FILE")] = None
    """With --format: the nodes (openb, k8ssim, manifests)."""
    pods: Annotated[Path | None, metavar("FILE")] = None
    """With --format: the pods or jobs."""
    throughputs: Annotated[Path | None, metavar("FILE")] = None
    """With --format gavel: the measured throughputs."""
    from_: Annotated[str, metavar("STORE", flag="from")] = field(default="", metadata=GIVEN)
    """With --format engine: the folder of a cluster (`proreus up --dir`), or the address of its store."""
    since: Annotated[str, metavar("WHEN")] = ""
    """With --format engine: from this moment on: 2026-11-16, 2026-11-16T08:00:00, or 7d, 24h, 90m ago."""
    until: Annotated[str, metavar("WHEN")] = ""
    """With --format engine: up to this moment."""
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
        and a file of nodes, or what a cluster recorded; of these, pods are drawn until the nodes are full."""
        if self.format == "engine":
            recorded = replace(self, from_=given)._recorded()
            return PodScenario(Resampled(recorded), PodsOptions(drop_failures=True))
        self._only_with_engine()
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
        if self.format == "engine":
            return PodScenario(self._recorded(), PodsOptions())
        self._only_with_engine()
        if self.pods is None:
            raise UsageError(f"--format {self.format} needs --pods FILE")
        return PodScenario(FromFiles(self.format, self.pods, self.nodes, self.throughputs), PodsOptions())

    def _recorded(self) -> FromEngine:
        if self.nodes or self.pods or self.throughputs:
            raise UsageError("--format engine reads a cluster's store: --from STORE, and no files")
        if not self.from_:
            raise UsageError("--format engine needs --from STORE: a cluster's folder or its store's address")
        now = time.time()
        since = moment_of("--since", self.since, now) if self.since else 0.0
        until = moment_of("--until", self.until, now) if self.until else now
        if since >= until:
            raise UsageError("--since is not before --until")
        place = Path(self.from_).expanduser()
        where = str(place.resolve()) if place.exists() else self.from_
        return FromEngine(where, since, until)

    def _only_with_engine(self) -> None:
        if self.from_ or self.since or self.until:
            raise UsageError("--from, --since and --until go with --format engine")

    def _named(self, name: str) -> PodScenario:
        self._only_with_engine()
        if self.nodes or self.pods or self.throughputs:
            raise UsageError("--nodes, --pods and --throughputs go with --format")
        return named_scenario(name, self.data)


def _files_in(folder: Path, nodes: Path | None) -> tuple[Path, Path | None]:
    """(file of pods, file of nodes): the one with "node" in its name is that of nodes."""
    files = sorted(file for file in folder.iterdir() if file.suffix in _FORMATS)
    named = [file for file in files if "node" in file.name]
    others = [file for file in files if file not in named]
    if len(others) != 1 or (nodes is None and len(named) > 1):
        raise UsageError(
            f"--from {folder}: a folder holds one file of pods and one with 'node' in its name, and this one "
            f"{', '.join(file.name for file in files) or 'none that can be read'}"
        )
    return others[0], nodes or next(iter(named), None)
