"""`proreus compare pods`: its flags, and the comparison that they ask for."""

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
from proreus.worlds.pods.flags import WorkloadArguments, scenario_of
from proreus.worlds.pods.policies.catalogue import POLICIES, PolicyOptions


@dataclass(frozen=True)
class CompareArguments:
    """Flags of `proreus compare pods`."""

    policies: str = "kube,best_fit,fgd"
    """Names of policies, separated by commas."""
    seeds: int = 10
    """How many seeds, from --seed on."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)
    scenarios: str = ""
    """Several scenarios, separated by commas, in place of --scenario."""
    policy_tuning: PolicyOptions = field(default_factory=PolicyOptions)
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports/pods")
    """Where the report, the tables and the plots go."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Run on a Ray cluster: host:port of its head, auto, or local to start one here."""
    common: Common = field(default_factory=Common)


def run(arguments: CompareArguments, command: str) -> int:
    """Run the comparison, print its tables and write its files."""
    prepare(arguments.common)
    to = Destination(arguments.out, arguments.common.json, command)
    compare_and_write(compare_request(arguments), to, new_console())
    return 0


def compare_request(arguments: CompareArguments) -> CompareRequest:
    """The comparison that the flags describe."""
    names = scenario_names(arguments.scenarios, arguments.workload.scenario)
    return CompareRequest(
        processes=process_count(arguments.processes),
        ray=arguments.ray,
        seeds=seeds_from(arguments.common.seed, arguments.seeds),
        scenarios=tuple(scenario_of(arguments.workload, name) for name in names),
        policies=tuple(split_names(arguments.policies)),
        options=arguments.policy_tuning,
    )


COMMAND = WorldCommand(
    CompareArguments,
    run,
    f"Policies: {', '.join(POLICIES)}.\n\n"
    "Example: proreus compare pods --scenario gpu --policies kube,fgd,best_fit --seeds 10 --tie random",
)
