"""The flags that say which workload to run, shared by every verb of the world `pods`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from proreus.contract.metavar import metavar
from proreus.model.errors import UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.pods.scenarios import FileFormat, FromFiles, PodScenario, parse_scenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.traces.generate import PRESETS


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
