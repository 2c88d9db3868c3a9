"""`proreus compare WORLD`: policies against each other over seeds, with intervals and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

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

from proreus.cli.arguments import CommonArguments, prepare
from proreus.cli.compile_progress import COMPILING
from proreus.cli.output import Output, new_console, waiting, write_json_bytes
from proreus.cli.world_arguments import check_objective, parse_in_world, tuning_for, world_in
from proreus.compare.comparison import CompareRequest, Comparison, compare
from proreus.compare.exports import rows_json
from proreus.compare.outputs import Outputs, write_outputs
from proreus.compare.tables import scenario_tables
from proreus.contract.user_scenarios import scenario_named
from proreus.contract.world import World
from proreus.kernels.compile_notice import heard_by
from proreus.model.errors import UsageError
from proreus.model.files import check_folder


@dataclass(frozen=True)
class CompareArguments:
    """Flags of `proreus compare` in every world."""

    seeds: int = 10
    """How many seeds, from --seed on."""
    scenarios: str = ""
    """Several scenarios, separated by commas, in place of --scenario."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports")
    """Where the report, the tables and the plots go."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Run on a Ray cluster: host:port of its head, auto, or local to start one here."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Run the comparison in the world that is named."""
    world = world_in(words)
    arguments: Any = parse_in_world("compare", world, words, _flags_of(world), "policies")
    prepare(arguments.common)
    request = compare_request(world, arguments)
    console = new_console(arguments.common)
    for scenario in request.scenarios:
        if caution := scenario.caution(request.seeds):
            console.print(f"note: {caution}", soft_wrap=True)
    command = shlex.join(("proreus", "compare", *words))
    compare_and_write(request, Destination(arguments.out, arguments.common, command), console)
    return 0


def _flags_of(world: World) -> type[CompareArguments]:
    """The flags with the world's own folder for reports."""

    @dataclass(frozen=True)
    class OfWorld(CompareArguments):
        out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports") / world.name
        """Where the report, the tables and the plots go."""

    return OfWorld


def compare_request(world: World, arguments: Any) -> CompareRequest:
    """The comparison that the flags describe."""
    names: list[str | None] = [*scenario_names(arguments.scenarios)]
    scenarios = tuple(scenario_named(world, arguments.workload, name) for name in names or [None])
    kinds = {world.policies(scenario).what for scenario in scenarios}
    if len(kinds) > 1:
        both = " and ".join(sorted(kinds, reverse=True))
        raise UsageError(f"--scenarios: {both} have policies of their own: compare one kind at a time")
    # Nothing given is the default; a list without a name in it is refused with the request.
    policies = split_names(arguments.policies) if arguments.policies else world.policies(scenarios[0]).main
    tuning = tuning_for(world, scenarios[0], arguments)
    check_objective(world.policies(scenarios[0]), tuning, policies)
    return CompareRequest(
        processes=process_count(arguments.processes),
        ray=arguments.ray,
        seeds=seeds_from(arguments.common.seed, arguments.seeds),
        scenarios=scenarios,
        policies=tuple(policies),
        options=tuning,
    )


@dataclass(frozen=True)
class Destination:
    """Where a comparison goes."""

    out: Path
    """The folder of the report, the tables and the plots."""
    output: Output
    """A further copy of the rows."""
    command: str
    """What the report says was run."""


def compare_and_write(request: CompareRequest, to: Destination, console: Console) -> Outputs:
    """The comparison with a progress bar, its tables printed and its files written."""
    check_folder(to.out)
    return write_comparison(run_comparison(request, console), to, console)


def run_comparison(request: CompareRequest, console: Console) -> Comparison:
    """The comparison with a progress bar."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def show_compiling(begun: int) -> None:
            bar.update(task, description=f"{COMPILING} ({begun} so far)")

        def show(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        with heard_by(show_compiling):
            return compare(request, show)


def write_comparison(comparison: Comparison, to: Destination, console: Console) -> Outputs:
    """Its tables printed and its files written."""
    # First what can hardly fail: whatever becomes of the files, the result has been shown.
    for table in scenario_tables(comparison, console.width):
        console.print(table)
    write_json_bytes(to.output, rows_json(comparison))
    with waiting(console, "writing the report"):
        outputs = write_outputs(comparison, to.out, to.command)
    if outputs.earlier is not None:
        console.print(f"the report of another run that was here is kept: {outputs.earlier}", soft_wrap=True)
    console.print(f"report: {outputs.report}", soft_wrap=True)
    return outputs


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """The seeds that `--seed` and `--seeds` name."""
    if count < 1:
        raise UsageError(f"--seeds {count}: at least one seed is needed")
    return tuple(range(first, first + count))


def process_count(processes: int) -> int | None:
    """What `--processes` names; None is one per core."""
    if processes < 0:
        raise UsageError(f"--processes {processes} is negative")
    return processes or None


def split_names(names: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def scenario_names(scenarios: str) -> list[str]:
    """Those of --scenarios."""
    names = split_names(scenarios)
    if scenarios and not names:
        raise UsageError(f"--scenarios {scenarios!r} names no scenario")
    return names
