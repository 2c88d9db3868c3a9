"""The flags that say what to train on, by world."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

import tyro

from proreus.cli.compare import split_names
from proreus.model.errors import UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.pods.flags import WorkloadArguments, scenario_of
from proreus.worlds.pods.scenario_json import scenario_from_json
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.rebalance.flags import WindowArguments, window_scenario_of
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario


class TrainingFlags(Protocol):
    """Flags of a world; a frozen dataclass with a default for every field."""

    def chosen(self) -> tuple[Any, ...]:
        """The scenarios that they name."""
        ...

    def read(self, entry: Any) -> Any:
        """A scenario back from a run's settings; a ValueError where it is none."""
        ...


def _name_of(entry: Any) -> str:
    try:
        return str(entry["name"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a scenario: {error}") from error


@dataclass(frozen=True)
class PodsTraining:
    """Of pods."""

    scenarios: str = ""
    """What to train on, separated by commas (default: gpu)."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)

    def chosen(self) -> tuple[Scenario, ...]:
        """Those of --scenarios, or the one of the other flags."""
        names: list[str | None] = [*split_names(self.scenarios)]
        if not names:
            names = [None if self.workload.scenario or self.workload.format else "gpu"]
        return tuple(scenario_of(self.workload, name) for name in names)

    def read(self, entry: Any) -> Scenario:
        """With all its options; --data says that the datasets lie elsewhere now."""
        return scenario_from_json(entry, self.workload.data)


@dataclass(frozen=True)
class VmsTraining:
    """Of virtual machines."""

    scenario: str = "waiting"
    """waiting, recovering, ... (generated machines), or huawei/waiting; @5: servers."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""

    def chosen(self) -> tuple[VmScenario, ...]:
        """The one of --scenario."""
        return (self._parsed(self.scenario),)

    def read(self, entry: Any) -> VmScenario:
        """By its name."""
        return self._parsed(_name_of(entry))

    def _parsed(self, name: str) -> VmScenario:
        return parse_vm_scenario(name, data_dir(self.data) if "/" in name else None)


@dataclass(frozen=True)
class WindowsTraining:
    """Of windows of requests."""

    scenarios: str = "windows/serial,windows/parallel"
    """Scenarios of windows to train on, separated by commas; of recorded ones, the first part."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets, for recorded scenarios; or set PROREUS_DATA."""

    def chosen(self) -> tuple[WindowScenario, ...]:
        """Those of --scenarios."""
        names = split_names(self.scenarios)
        if not names:
            raise UsageError("--scenarios: name at least one")
        return tuple(window_scenario_of(WindowArguments(name, self.data)) for name in names)

    def read(self, entry: Any) -> WindowScenario:
        """By its name."""
        return window_scenario_of(WindowArguments(_name_of(entry), self.data))
