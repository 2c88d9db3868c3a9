"""The flags that say which pods serve which windows of requests, shared by the verbs of `rebalance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.compare.deploy import WindowScenario, parse_window_scenario, with_changes, with_requests
from proreus.compare.snapshots import BYTEDANCE, SnapshotScenario, is_snapshot, parse_snapshot_scenario
from proreus.traces.catalogue import data_dir
from proreus.worlds.deploy.world import Sharing


@dataclass(frozen=True)
class WindowArguments:
    """Where requests come from, and how pods may move."""

    scenario: str = "windows/serial"
    """windows/serial, windows/parallel (generated), windows/huawei-serial, windows/huawei-parallel,
    windows/monitor (data files); or a snapshot of virtual machines: snapshot, snapshot-small, snapshot-large
    (generated; snapshot@100 has 100 machines), bytedance (data files)."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    requests: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Your own requests: the folder that `proreus data clean` wrote, or a table time,pod,cpu,mem (an empty
    pod is dealt in turn)."""
    layout: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Your own nodes and pods, as JSON: {"node1": {"total_cpu": 100, ..., "pods": [...]}}, in the units of
    the requests; without it the pods of --requests are spread over equal nodes."""
    nodes: int = 10
    """How many such equal nodes."""
    split: Literal["train", "valid", "test"] = "test"
    """The part of the windows, in order of time."""
    budget: int | None = None
    """Migrations a window (default: 5), or of a snapshot (default: 50)."""
    threshold: float | None = None
    """Share of a node above which a request counts as a violation (default: 0.8)."""
    max_pods: int | None = None
    """Pods a node (default: 100)."""
    sharing: Sharing | None = None
    """How pods share a node (default: proportional)."""


def rebalance_scenario_of(arguments: WindowArguments, name: str) -> WindowScenario | SnapshotScenario:
    """The scenario of that name, of windows or of a snapshot, as the flags describe it."""
    if not is_snapshot(name):
        return window_scenario_of(arguments, name)
    needed = arguments.data is not None or name == BYTEDANCE
    return parse_snapshot_scenario(name, data_dir(arguments.data) if needed else None, arguments.budget)


def window_scenario_of(arguments: WindowArguments, name: str | None = None) -> WindowScenario:
    """The scenario that the flags describe; `name` in place of `--scenario`."""
    chosen = name or arguments.scenario
    # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
    needed = arguments.data is not None or chosen not in ("windows/serial", "windows/parallel")
    scenario = parse_window_scenario(chosen, data_dir(arguments.data) if needed else None)
    if arguments.requests is not None:
        scenario = with_requests(scenario, arguments.requests, arguments.layout, arguments.nodes)
    scenario = with_changes(
        scenario,
        budget=arguments.budget,
        threshold=arguments.threshold,
        max_pods=arguments.max_pods,
        sharing=arguments.sharing,
    )
    return replace(scenario, part=arguments.split)
