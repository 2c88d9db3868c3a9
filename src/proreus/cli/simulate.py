"""`proreus simulate WORLD`: one policy over one scenario, with its measures, its log and its reasons."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from proreus.cli.arguments import CommonArguments, prepare
from proreus.cli.explanation_tables import explanation_tables
from proreus.cli.live_screen import screen
from proreus.cli.output import new_console, waiting, write_json
from proreus.cli.world_arguments import check_objective, parse_in_world, tuning_for, world_in
from proreus.compare.results import Simulated, measures_table
from proreus.contract.play import AnySimulation, step
from proreus.contract.scenario import Scenario
from proreus.contract.simulation import Outcome
from proreus.contract.user_scenarios import scenario_named
from proreus.contract.world import Played, World
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import check_writable, write_atomically
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.protocol import Explains


@dataclass(frozen=True)
class SimulateArguments:
    """Flags of `proreus simulate` in every world."""

    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write a CSV row for each thing that was decided about: each pod, run, window or migration."""
    export: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write where everything stands in the end as JSON, in worlds that read such files back."""
    watch: float = 0.0
    """Show the run as it goes, so many decisions (or windows) a second; 0: do not."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Run the simulation and print its measures."""
    world = world_in(words)
    arguments: Any = parse_in_world("simulate", world, words, _flags_of(world), "policy")
    common: CommonArguments = arguments.common
    prepare(common)
    if not 0 <= arguments.watch < math.inf:
        raise UsageError(f"--watch {arguments.watch:g}: a number of decisions a second, or 0")
    for path in (arguments.log, arguments.export):
        if path is not None:
            check_writable(path)
    scenario = scenario_named(world, arguments.workload, None)
    tuning, catalogue = tuning_for(world, scenario, arguments), world.policies(scenario)
    chosen = arguments.policy or catalogue.main[0]
    check_objective(catalogue, tuning, (chosen,))
    policy = catalogue.make(chosen, tuning, common.seed)
    if arguments.explain and not isinstance(policy, Explains):
        raise UsageError(f"--explain: policy {chosen!r} gives no reasons")
    console = new_console(common)
    with waiting(console, f"reading {scenario.name}"):
        work = scenario.load(common.seed)
    if caution := scenario.caution((common.seed,)):
        console.print(f"note: {caution}", soft_wrap=True)
    if arguments.export is not None and scenario.start(work, common.seed).outcome().export is None:
        raise UsageError(f"--export: the world {world.name!r} has nothing to export")
    if arguments.explain:
        with waiting(console, f"looking for {arguments.explain}"):
            _explain(world, scenario.start(work, common.seed), policy.fresh(common.seed), arguments, console)
    if arguments.watch > 0:
        _watch(scenario, world.shown(work), policy, arguments, console)
    played = _play(world, scenario, work, policy, common.seed, console)
    result = Simulated(world, scenario.name, chosen, common.seed, played)
    console.print(measures_table(f"{result.policy} on {result.scenario}", world, result.measures))
    if played.remark:
        console.print(played.remark)
    _write(played.outcome, arguments, console)
    write_json(common, result.to_json())
    return 0


def _flags_of(world: World) -> type[SimulateArguments]:
    """The flags, with the world's own word for what is decided about."""
    subject = world.words.subject
    asked = tyro.conf.arg(
        metavar=subject.upper(), help=f"Print why this {subject} was decided about as it was."
    )
    explain: list[tuple[str, Any, Any]] = [("explain", Annotated[str, asked], field(default=""))]
    return make_dataclass("OfWorld", explain, bases=(SimulateArguments,), frozen=True)


def _play(
    world: World, scenario: Scenario, work: Any, policy: AnyPolicy, seed: int, console: Console
) -> Played:
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(f"{policy.name} on {scenario.name}", total=None)

        def hear(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return world.play(scenario, work, policy, seed, hear=hear)


def _explain(world: World, simulation: AnySimulation, policy: Any, arguments: Any, console: Console) -> None:
    """Decision by decision; each one about the subject that was asked for with its reasons."""
    asked, seen = arguments.explain, dict[str, None]()
    while (observation := simulation.next_decision()) is not None:
        seen[simulation.subject()] = None
        if simulation.subject() == asked:
            explanation = policy.explain(observation)
            console.print(*explanation_tables(explanation, observation, world.words, console.width))
        step(simulation, policy)
    if asked not in seen:
        raise _unknown(world.words.subject, asked, list(seen))


def _unknown(what: str, asked: str, seen: list[str]) -> UsageError:
    """What was decided about: the range of numbers, else the nearest names."""
    if seen and all(name.isdecimal() for name in seen):
        numbers = sorted(map(int, seen))
        return UsageError(f"unknown {what} {asked!r}: those decided about are {numbers[0]} to {numbers[-1]}")
    return unknown_name(what, asked, seen)


def _watch(scenario: Scenario, work: Any, policy: AnyPolicy, arguments: Any, console: Console) -> None:
    """The run as it goes."""
    seed = arguments.common.seed
    simulation, fresh = scenario.start(work, seed), policy.fresh(seed)
    with screen(console, arguments.watch) as show:
        show(simulation.screen())
        while step(simulation, fresh):
            if lines := simulation.screen():
                show(lines)


def _write(outcome: Outcome, arguments: Any, console: Console) -> None:
    if arguments.log is not None:
        write_log(arguments.log, outcome)
        console.print(f"log: {arguments.log}")
    if arguments.export is not None and outcome.export is not None:
        write_atomically(arguments.export, (json.dumps(outcome.export(), indent=1) + "\n").encode())
        console.print(f"export: {arguments.export}")


def write_log(path: Path, outcome: Outcome) -> None:
    """The rows of an outcome as CSV; a moment that never came is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(outcome.columns)
    for row in outcome.rows:
        writer.writerow(["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row])
    write_atomically(path, text.getvalue().encode())
