"""The flags that say which pods serve which windows of requests, shared by the verbs of `rebalance`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from proreus.contract.flags import metavar, names_files
from proreus.contract.world import GIVEN, PLAYING
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.snapshots.scenarios import (
    BYTEDANCE,
    SnapshotScenario,
    is_snapshot,
    own_snapshot,
    parse_snapshot_scenario,
)
from proreus.worlds.rebalance.windows.scenarios import (
    WindowScenario,
    check_stretches,
    needs_data,
    parse_window_scenario,
    with_changes,
    with_requests,
)
from proreus.worlds.rebalance.windows.simulation.world import Sharing

_OF_WINDOWS = ("requests", "layout", "nodes", "threshold", "max_pods", "sharing", "migration_cost")
"""Flags that say nothing about a snapshot."""

_LEAST_STRETCHES = 5
"""Of the part that is judged on: fewer tell no policies apart."""


@dataclass(frozen=True)
class RebalanceFlags:
    """Where requests come from, and how pods may move."""

    scenario: str = "windows/serial"
    """windows/serial, windows/parallel (generated; windows/serial@20 has 20 nodes), windows/huawei-serial,
    windows/huawei-parallel, windows/monitor (data files); or a snapshot of virtual machines: snapshot,
    snapshot-small, snapshot-large (generated; snapshot@100 has 100 machines), bytedance (data files)."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    requests: Annotated[Path | None, metavar("FILE")] = field(default=None, metadata=GIVEN)
    """Your own requests: the folder that `proreus data clean` wrote, or a table time,pod,cpu,mem (an empty
    pod is dealt in turn)."""
    layout: Annotated[Path | None, metavar("FILE")] = None
    """Your own nodes and pods, as JSON: {"node1": {"total_cpu": 100, ..., "pods": [...]}}, in the units of
    the requests; without it the pods of --requests are spread over equal nodes."""
    nodes: int | None = None
    """How many such equal nodes (default: 10)."""
    snapshot: Annotated[Path | None, metavar("FILE")] = field(default=None, metadata=PLAYING)
    """Your own snapshot of virtual machines, as JSON in the layout of the public one."""
    strict: bool = field(default=False, metadata=PLAYING)
    """Refuse a snapshot in which a NUMA node lists more free and in use than it has; otherwise what is free
    there is lowered to what its virtual machines leave, and a note says so."""
    split: Literal["train", "valid", "test"] = field(default="test", metadata=PLAYING)
    """The part of the windows, in order of time."""
    budget: int | None = None
    """Migrations a window (default: 5), or of a snapshot (default: 50)."""
    threshold: float | None = None
    """Share of a node above which a request counts as a violation (default: 0.8)."""
    max_pods: int | None = None
    """Pods a node (default: 100)."""
    sharing: Sharing | None = None
    """How pods share a node (default: proportional)."""
    migration_cost: float | None = None
    """What a migration takes from the reward, per percent of a node that the pod asks for (default: 0.01)."""

    def drawing(self, given: str) -> WindowScenario:
        """Windows that are others for every seed: stretches of the requests in a file, or of a dataset, or
        generated ones by the name of a scenario."""
        own = names_files(given, self.scenario, RebalanceFlags.scenario)
        name = self.scenario if own else given
        if is_snapshot(name):
            raise UsageError(
                f"--from {given}: a snapshot is searched anew every time (--policy search), and nothing is "
                "trained for it; windows are tuned for"
            )
        scenario = (replace(self, requests=Path(given)) if own else self)._of_windows(name)
        check_stretches(scenario, _LEAST_STRETCHES)
        return scenario

    def chosen(self, name: str | None = None) -> WindowScenario | SnapshotScenario:
        """Windows or a snapshot, as the flags describe them; `name` in place of --scenario."""
        chosen = name or self.scenario
        if self.snapshot is not None or is_snapshot(chosen):
            return self._of_snapshot(chosen)
        return self._of_windows(chosen)

    def _of_snapshot(self, name: str) -> SnapshotScenario:
        for flag in _OF_WINDOWS:
            if getattr(self, flag) is not None:
                raise UsageError(f"--{flag.replace('_', '-')} is of windows, and a snapshot is played")
        if self.snapshot is not None:
            scenario = own_snapshot(self.snapshot, self.budget)
        else:
            needed = self.data is not None or name == BYTEDANCE
            scenario = parse_snapshot_scenario(name, data_dir(self.data) if needed else None, self.budget)
        return replace(scenario, strict=self.strict)

    def _of_windows(self, name: str) -> WindowScenario:
        if self.strict:
            raise UsageError("--strict is of snapshots, and windows are played")
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = self.data is not None or needs_data(name)
        scenario = parse_window_scenario(name, data_dir(self.data) if needed else None)
        if self.requests is not None:
            if self.layout is not None and self.nodes is not None:
                raise UsageError("--nodes: the layout says which nodes there are")
            nodes = 10 if self.nodes is None else self.nodes
            scenario = with_requests(scenario, self.requests, self.layout, nodes)
        elif self.layout is not None or self.nodes is not None:
            flag = "--nodes" if self.layout is None else "--layout"
            raise UsageError(f"{flag} is for requests of your own: give --requests too")
        scenario = with_changes(
            scenario,
            budget=self.budget,
            threshold=self.threshold,
            max_pods=self.max_pods,
            sharing=self.sharing,
        )
        if self.migration_cost is not None:
            if not 0 <= self.migration_cost < math.inf:
                raise UsageError(f"--migration-cost {self.migration_cost} is not a number from 0 on")
            weights = replace(scenario.options.weights, migrated=self.migration_cost)
            scenario = with_changes(scenario, weights=weights)
        return replace(scenario, part=self.split)
