"""`proreus compare rebalance`: over windows of requests, or over snapshots of virtual machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import Common, new_console, prepare
from proreus.cli.compare import (
    Destination,
    compare_and_write,
    process_count,
    scenario_names,
    seeds_from,
    split_names,
)
from proreus.cli.worlds import WorldCommand
from proreus.compare.comparison import CompareRequest
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.flags import (
    WindowArguments,
    check_policy_kind,
    plays_snapshot,
    rebalance_scenario_of,
)
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES
from proreus.worlds.rebalance.windows.policies.catalogue import MOVE_POLICIES
from proreus.worlds.rebalance.windows.scenarios import WindowScenario

_MAIN_POLICIES = ("hotspot,balance,nothing,learned", "hotspot,greedy_fragment,search")
"""Over windows, and over snapshots."""


@dataclass(frozen=True)
class CompareArguments:
    """Flags of `proreus compare rebalance`."""

    policies: str = ""
    """Names of policies, or paths of checkpoints, separated by commas (default: the main ones)."""
    seeds: int = 10
    """How many seeds, from --seed on."""
    workload: WindowArguments = field(default_factory=WindowArguments)
    scenarios: str = ""
    """Several scenarios, separated by commas, in place of --scenario."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports/rebalance")
    """Where the report, the tables and the plots go."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Run on a Ray cluster: host:port of its head, auto, or local to start one here."""
    common: Common = field(default_factory=Common)


def run(arguments: CompareArguments, command: str) -> int:
    """Run the comparison, print its tables and write its files."""
    prepare(arguments.common)
    names = scenario_names(arguments.scenarios, arguments.workload.scenario)
    kinds = {plays_snapshot(arguments.workload, name) for name in names}
    if len(kinds) > 1:
        raise UsageError(
            "--scenarios: windows and snapshots have policies of their own: compare one kind at a time"
        )
    policies = tuple(split_names(arguments.policies or _MAIN_POLICIES[kinds == {True}]))
    for policy in policies:
        check_policy_kind(policy, snapshot=kinds == {True})
    request = CompareRequest(
        processes=process_count(arguments.processes),
        ray=arguments.ray,
        seeds=seeds_from(arguments.common.seed, arguments.seeds),
        scenarios=tuple(rebalance_scenario_of(arguments.workload, name) for name in names),
        policies=policies,
    )
    console = new_console()
    for scenario in request.scenarios:
        if isinstance(scenario, WindowScenario) and (told := scenario.repeats(request.seeds)):
            console.print(f"note: {told}", soft_wrap=True)
    compare_and_write(request, Destination(arguments.out, arguments.common.json, command), console)
    return 0


COMMAND = WorldCommand(
    CompareArguments,
    run,
    f"Policies over windows of requests: {', '.join(MOVE_POLICIES)}. Over snapshots of virtual machines: "
    f"{', '.join(SNAPSHOT_POLICIES)}.\n\n"
    "Examples: proreus compare rebalance --scenarios windows/serial,windows/parallel "
    "--policies hotspot,balance,nothing,learned; "
    "proreus compare rebalance --scenario snapshot --policies hotspot,greedy_fragment,search --seeds 5",
)
