"""`proreus compare vms`: its flags, and the comparison that they ask for."""

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
from proreus.worlds.vms.flags import VmWorkloadArguments, vm_scenario_of
from proreus.worlds.vms.policies.catalogue import VM_POLICIES
from proreus.worlds.vms.scenarios import VmScenario


@dataclass(frozen=True)
class CompareArguments:
    """Flags of `proreus compare vms`."""

    policies: str = "first_fit,best_fit,balance_fit,learned"
    """Names of policies, or paths of checkpoints, separated by commas."""
    seeds: int = 10
    """How many seeds, from --seed on."""
    workload: VmWorkloadArguments = field(default_factory=VmWorkloadArguments)
    scenarios: str = ""
    """Several scenarios, separated by commas, in place of --scenario."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports/vms")
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
    request = CompareRequest(
        processes=process_count(arguments.processes),
        ray=arguments.ray,
        seeds=seeds_from(arguments.common.seed, arguments.seeds),
        scenarios=tuple(vm_scenario_of(arguments.workload, name) for name in names),
        policies=tuple(split_names(arguments.policies)),
    )
    console = new_console()
    for scenario in request.scenarios:
        if isinstance(scenario, VmScenario) and (told := scenario.repeats(arguments.seeds)):
            console.print(f"note: {told}", soft_wrap=True)
    compare_and_write(request, Destination(arguments.out, arguments.common.json, command), console)
    return 0


COMMAND = WorldCommand(
    CompareArguments,
    run,
    f"Policies: {', '.join(VM_POLICIES)}.\n\n"
    "Example: proreus compare vms --scenarios waiting,recovering@20 --policies first_fit,balance_fit,learned",
)
