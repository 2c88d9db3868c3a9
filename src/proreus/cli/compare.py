"""`proreus compare WORLD`: policies against each other over seeds, with intervals and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from proreus.cli.arguments import Common, new_console, parse_named, prepare
from proreus.cli.workloads import WorkloadArguments, scenario_of
from proreus.compare.comparison import CompareRequest, compare_pods
from proreus.compare.exports import rows_json
from proreus.compare.outputs import Outputs, write_outputs
from proreus.compare.tables import scenario_tables
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically
from proreus.policies.catalogue import POLICIES, PolicyOptions

WORLDS = ("pods",)


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


def run(words: Sequence[str]) -> int:
    """Run the comparison, print its tables and write its files."""
    description = (
        f"Policies: {', '.join(POLICIES)}.\n\n"
        "Example: proreus compare pods --scenario gpu --policies kube,fgd,best_fit --seeds 10 --tie random"
    )
    _, arguments = parse_named(CompareArguments, "compare", ("world", WORLDS), words, description)
    prepare(arguments.common)
    if arguments.processes < 0:
        raise UsageError(f"--processes {arguments.processes} is negative")
    command = shlex.join(("proreus", "compare", *words))
    compare_and_write(arguments, command, new_console())
    return 0


def compare_and_write(arguments: CompareArguments, command: str, console: Console) -> Outputs:
    """The comparison with a progress bar, its tables printed and its files written."""
    if arguments.seeds < 1:
        raise UsageError(f"--seeds {arguments.seeds}: at least one seed is needed")
    names = split_names(arguments.scenarios) or [arguments.workload.scenario]
    request = CompareRequest(
        scenarios=tuple(scenario_of(arguments.workload, name) for name in names),
        policies=tuple(split_names(arguments.policies)),
        options=arguments.policy_tuning,
        seeds=tuple(range(arguments.common.seed, arguments.common.seed + arguments.seeds)),
        processes=arguments.processes or None,
        ray=arguments.ray,
    )
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        comparison = compare_pods(request, show)
    with console.status("writing the report"):
        outputs = write_outputs(comparison, arguments.out, command)
    if arguments.common.json is not None:
        write_atomically(arguments.common.json, rows_json(comparison))
    for table in scenario_tables(comparison):
        console.print(table)
    console.print(f"report: {outputs.report}", soft_wrap=True)
    return outputs


def split_names(names: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
