"""Lanes of virtual machines by the name of a scenario, for vector environments."""

from __future__ import annotations

from pathlib import Path

from proreus.data.catalogue import data_dir
from proreus.worlds.vms.scenarios import parse_vm_scenario
from proreus.worlds.vms.training.evaluation import VmsLessons, VmsSchool
from proreus.worlds.vms.training.lanes import VmRowLanes
from proreus.worlds.vms.training.training_trace import training_trace


def episodes(
    scenario: str = "recovering",
    count: int = 1,
    *,
    data: Path | str | None = None,
    limit: int = 0,
    ending_cost: float = 0.0,
) -> VmRowLanes:
    """`count` lanes whose runs start in the training part; `limit` and `ending_cost` as in `VmsLessons`."""
    folder = data_dir(None if data is None else Path(data)) if "/" in scenario else None
    vm_scenario = parse_vm_scenario(scenario, folder)
    lessons = VmsLessons(limit=limit, ending_cost=ending_cost)
    return VmsSchool(training_trace(vm_scenario), vm_scenario.options, lessons).lanes(count)
