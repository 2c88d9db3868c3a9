"""`proreus simulate vms`: one policy over runs of virtual machines, with their measures and a log."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from proreus.cli.arguments import Common, new_console, prepare
from proreus.cli.simulate import measures_table, write_log, write_result
from proreus.cli.watching import screen
from proreus.cli.worlds import WorldCommand
from proreus.model.errors import UsageError
from proreus.model.files import check_writable
from proreus.worlds.vms.flags import VmWorkloadArguments, vm_scenario_of
from proreus.worlds.vms.play import VmRuns, play_runs
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, make_vm_policy
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.outcome import MEASURES, RunFigures
from proreus.worlds.vms.simulation.screen import server_lines
from proreus.worlds.vms.simulation.world import VmsWorld


@dataclass(frozen=True)
class SimulateArguments:
    """Flags of `proreus simulate vms`."""

    policy: str = "first_fit"
    """The policy, by name, or the path of a checkpoint."""
    workload: VmWorkloadArguments = field(default_factory=VmWorkloadArguments)
    start: Annotated[int | None, tyro.conf.arg(metavar="ROW")] = None
    """One run, from this machine of the trace (0 is the first), in place of --starts."""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write one CSV row per run: start, machines placed, waits, use."""
    watch: float = 0.0
    """Show the first run's servers as they fill, so many placements a second; 0: do not."""
    common: Common = field(default_factory=Common)


def run(arguments: SimulateArguments, command: str) -> int:
    """Run the simulation and print its measures."""
    prepare(arguments.common)
    if not 0 <= arguments.watch < math.inf:
        raise UsageError(f"--watch {arguments.watch:g}: a number of placements a second, or 0")
    if arguments.log is not None:
        check_writable(arguments.log)
    policy = make_vm_policy(arguments.policy, arguments.common.seed)
    scenario = vm_scenario_of(arguments.workload)
    if arguments.start is not None:
        scenario = replace(scenario, starts=1, only=arguments.start)
    console = new_console()
    with console.status(f"reading {scenario.name}"):
        runs = scenario.load(arguments.common.seed)
    if arguments.watch > 0:
        _watch(runs, policy, arguments.watch, console)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(policy.name, total=runs.starts.size)
        found, seconds = play_runs(runs, policy, lambda done: bar.update(task, completed=done))
    measures = scenario.measures(found, seconds)
    console.print(measures_table(f"{arguments.policy} on {scenario.name}", measures, MEASURES))
    if arguments.log is not None:
        write_log(
            arguments.log,
            list(RunFigures.__dataclass_fields__),
            [list(asdict(figures).values()) for figures in found],
        )
        console.print(f"log: {arguments.log}")
    if arguments.common.json is not None:
        result = {
            "world": "vms",
            "scenario": scenario.name,
            "policy": arguments.policy,
            "seed": arguments.common.seed,
            "measures": measures,
        }
        write_result(arguments.common.json, result)
    return 0


def _watch(runs: VmRuns, policy: VmRulePolicy, rate: float, console: Console) -> None:
    """The first run, placement by placement."""
    world = VmsWorld(runs.work, runs.options, int(runs.limits[0]))
    world.begin(int(runs.starts[0]), int(runs.limits[0]))
    with screen(console, rate) as show:
        show(_frame(world, -1))
        while (observation := world.next_decision()) is not None:
            place = policy.decide(observation)
            world.apply(place)
            show(_frame(world, place))


def _frame(world: VmsWorld, place: int) -> list[str]:
    figures, servers = world.figures(), world.lanes.servers
    head = f"{figures.placed:,} placed, {figures.rejected:,} rejected, {figures.wait:,.0f} s waited"
    return [head, *server_lines(servers.capacity, servers.free[0], figures.servers, place)]


COMMAND = WorldCommand(
    SimulateArguments,
    run,
    f"Policies: {', '.join(VM_POLICIES)}.\n\n"
    "Example: proreus simulate vms --scenario waiting --policy balance_fit --starts 100",
)
