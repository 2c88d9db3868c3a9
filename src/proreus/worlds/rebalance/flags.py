"""The flags that say which pods serve which windows of requests, shared by the verbs of `rebalance`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.model.errors import UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES
from proreus.worlds.rebalance.snapshots.scenarios import (
    BYTEDANCE,
    SnapshotScenario,
    is_snapshot,
    own_snapshot,
    parse_snapshot_scenario,
)
from proreus.worlds.rebalance.windows.policies.catalogue import MOVE_POLICIES
from proreus.worlds.rebalance.windows.scenarios import (
    WindowScenario,
    parse_window_scenario,
    with_changes,
    with_requests,
)
from proreus.worlds.rebalance.windows.simulation.world import Sharing

_OF_WINDOWS = ("requests", "layout", "nodes", "threshold", "max_pods", "sharing", "migration_cost")
"""Flags that say nothing about a snapshot."""


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
    nodes: int | None = None
    """How many such equal nodes (default: 10)."""
    snapshot: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Your own snapshot of virtual machines, as JSON in the layout of the public one."""
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
    migration_cost: float | None = None
    """What a migration takes from the reward, per percent of a node that the pod asks for (default: 0.01)."""


def plays_snapshot(arguments: WindowArguments, name: str) -> bool:
    """Whether the scenario of that name, or what the flags put in its place, is a snapshot."""
    return arguments.snapshot is not None or is_snapshot(name)


def rebalance_scenario_of(arguments: WindowArguments, name: str) -> WindowScenario | SnapshotScenario:
    """The scenario of that name, of windows or of a snapshot, as the flags describe it."""
    if not plays_snapshot(arguments, name):
        return window_scenario_of(arguments, name)
    for flag in _OF_WINDOWS:
        if getattr(arguments, flag) is not None:
            raise UsageError(f"--{flag.replace('_', '-')} is of windows, and a snapshot is played")
    if arguments.snapshot is not None:
        return own_snapshot(arguments.snapshot, arguments.budget)
    needed = arguments.data is not None or name == BYTEDANCE
    return parse_snapshot_scenario(name, data_dir(arguments.data) if needed else None, arguments.budget)


def check_policy_kind(policy: str, *, snapshot: bool) -> None:
    """A UsageError where the policy is one of the other kind of scenario."""
    plain = policy.partition("@")[0]
    own, other = (SNAPSHOT_POLICIES, MOVE_POLICIES) if snapshot else (MOVE_POLICIES, SNAPSHOT_POLICIES)
    if plain in other and plain not in own:
        kinds = ("windows", "snapshots") if snapshot else ("snapshots", "windows")
        raise UsageError(f"policy {policy!r} is for {kinds[0]}; for {kinds[1]} there are {', '.join(own)}")


def window_scenario_of(arguments: WindowArguments, name: str | None = None) -> WindowScenario:
    """The scenario that the flags describe; `name` in place of `--scenario`."""
    chosen = name or arguments.scenario
    # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
    needed = arguments.data is not None or chosen not in ("windows/serial", "windows/parallel")
    scenario = parse_window_scenario(chosen, data_dir(arguments.data) if needed else None)
    if arguments.requests is not None:
        if arguments.layout is not None and arguments.nodes is not None:
            raise UsageError("--nodes: the layout says which nodes there are")
        scenario = with_requests(
            scenario, arguments.requests, arguments.layout, 10 if arguments.nodes is None else arguments.nodes
        )
    elif arguments.layout is not None or arguments.nodes is not None:
        flag = "--nodes" if arguments.layout is None else "--layout"
        raise UsageError(f"{flag} is for requests of your own: give --requests too")
    scenario = with_changes(
        scenario,
        budget=arguments.budget,
        threshold=arguments.threshold,
        max_pods=arguments.max_pods,
        sharing=arguments.sharing,
    )
    if arguments.migration_cost is not None:
        if not 0 <= arguments.migration_cost < math.inf:
            raise UsageError(f"--migration-cost {arguments.migration_cost} is not a number from 0 on")
        weights = replace(scenario.options.weights, migrated=arguments.migration_cost)
        scenario = with_changes(scenario, weights=weights)
    return replace(scenario, part=arguments.split)
