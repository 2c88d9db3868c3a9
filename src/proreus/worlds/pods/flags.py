"""The flags that say which workload to run, shared by `simulate` and `compare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from proreus.model.errors import UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.pods.scenarios import FileFormat, FromFiles, Scenario, parse_scenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.traces.generate import PRESETS


@dataclass(frozen=True)
class WorkloadArguments:
    """Where the work comes from, and what happens to pods that find no room."""

    scenario: str = ""
    """small (the default), medium, large, gpu: generated (gpu@1000: so many nodes); or a dataset."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    format: FileFormat | None = None
    """Read your own files in this format, in place of a scenario."""
    nodes: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """With --format: the nodes (openb, k8ssim, manifests)."""
    pods: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """With --format: the pods or jobs."""
    throughputs: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """With --format gavel: the measured throughputs."""
    drop_failures: bool | None = None
    """Drop a pod that no node can take now (default: as the scenario has it) and do not keep it waiting."""


def scenario_of(arguments: WorkloadArguments, name: str | None = None) -> Scenario:
    """The scenario that the flags describe; `name` in place of `--scenario`."""
    if arguments.format is not None:
        if arguments.pods is None:
            raise UsageError(f"--format {arguments.format} needs --pods FILE")
        if name or arguments.scenario:
            raise UsageError("--format reads your own files: leave out the scenario")
        source = FromFiles(arguments.format, arguments.pods, arguments.nodes, arguments.throughputs)
        scenario = Scenario(source, PodsOptions())
    elif arguments.nodes or arguments.pods or arguments.throughputs:
        raise UsageError("--nodes, --pods and --throughputs go with --format")
    else:
        chosen = name or arguments.scenario or "small"
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = arguments.data is not None or chosen.partition("@")[0] not in PRESETS
        folder = data_dir(arguments.data) if needed else None
        scenario = parse_scenario(chosen, folder)
    if arguments.drop_failures is None:
        return scenario
    return replace(scenario, options=replace(scenario.options, drop_failures=arguments.drop_failures))
