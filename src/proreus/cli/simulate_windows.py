"""`proreus simulate rebalance`: one policy over windows of requests: measures, a log, a layout."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from proreus.cli.arguments import Common, new_console, prepare
from proreus.cli.simulate import measures_table, write_log, write_result
from proreus.cli.simulate_snapshot import Wanted, simulate_snapshot
from proreus.cli.watching import screen
from proreus.cli.worlds import WorldCommand
from proreus.model.errors import UsageError
from proreus.model.files import check_writable, write_atomically
from proreus.worlds.rebalance.flags import (
    WindowArguments,
    check_policy_kind,
    plays_snapshot,
    window_scenario_of,
)
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES
from proreus.worlds.rebalance.windows.play import play_by_windows, play_part
from proreus.worlds.rebalance.windows.policies.catalogue import MOVE_POLICIES, make_move_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.simulation.layout import layout_now
from proreus.worlds.rebalance.windows.simulation.outcome import MEASURES, WindowFigures, window_figures
from proreus.worlds.rebalance.windows.simulation.screen import node_lines
from proreus.worlds.rebalance.windows.simulation.world import DeployWorld


@dataclass(frozen=True)
class SimulateArguments:
    """Flags of `proreus simulate rebalance`."""

    policy: str = "hotspot"
    """The policy, by name, or the path of a checkpoint."""
    workload: WindowArguments = field(default_factory=WindowArguments)
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write one CSV row per window (requests, violations, migrations), or per migration of a snapshot."""
    export: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write where the pods stand in the end, as JSON in the layout of --layout (or of --snapshot)."""
    watch: float = 0.0
    """Show the nodes as pods move, so many windows (or migrations of a snapshot) a second; 0: do not."""
    common: Common = field(default_factory=Common)


def run(arguments: SimulateArguments, command: str) -> int:
    """Run the simulation and print its measures."""
    prepare(arguments.common)
    for path in (arguments.log, arguments.export):
        if path is not None:
            check_writable(path)
    if arguments.watch < 0:
        raise UsageError(f"--watch {arguments.watch:g} is negative")
    snapshot = plays_snapshot(arguments.workload, arguments.workload.scenario)
    check_policy_kind(arguments.policy, snapshot=snapshot)
    if snapshot:
        return simulate_snapshot(
            arguments.workload,
            arguments.policy,
            Wanted(arguments.log, arguments.export, arguments.watch),
            arguments.common,
        )
    policy = make_move_policy(arguments.policy, arguments.common.seed)
    scenario = window_scenario_of(arguments.workload)
    console = new_console()
    with console.status(f"reading {scenario.name}"):
        world = scenario.load(arguments.common.seed)
    part = scenario.played_part(world, arguments.common.seed)
    if arguments.watch > 0:
        _watch(world, policy, part, arguments.watch, console)
    with console.status(f"playing {scenario.name}"):
        outcomes, _, seconds = play_part(world, policy, part)
    measures = scenario.measures(outcomes, seconds)
    console.print(measures_table(f"{arguments.policy} on {scenario.name}", measures, MEASURES))
    if arguments.log is not None:
        rows = [list(asdict(figures).values()) for figures in window_figures(outcomes, part[0])]
        write_log(arguments.log, list(WindowFigures.__dataclass_fields__), rows)
        console.print(f"log: {arguments.log}")
    if arguments.export is not None:
        write_atomically(arguments.export, (json.dumps(layout_now(world), indent=2) + "\n").encode())
        console.print(f"layout: {arguments.export}")
    if arguments.common.json is not None:
        result = {
            "world": "rebalance",
            "scenario": scenario.name,
            "policy": arguments.policy,
            "seed": arguments.common.seed,
            "measures": measures,
        }
        write_result(arguments.common.json, result)
    return 0


def _watch(
    world: DeployWorld, policy: MovePolicy, part: tuple[int, int], rate: float, console: Console
) -> None:
    """The run, window by window."""
    names = world.windows.deployment
    with screen(console, rate) as show:
        for moves in play_by_windows(world, policy, part):
            moved = [
                f"{names.pod_names[pod]} {names.node_names[source]} → {names.node_names[target]}"
                for pod, source, target in moves
            ]
            head = f"window {world.window - 1:,}: {', '.join(moved) or 'no pod moved'}"
            show([head, *node_lines(world, {pod for pod, _, _ in moves})])


COMMAND = WorldCommand(
    SimulateArguments,
    run,
    f"Policies over windows of requests: {', '.join(MOVE_POLICIES)}. Over snapshots of virtual machines: "
    f"{', '.join(SNAPSHOT_POLICIES)}.\n\n"
    "Examples: proreus simulate rebalance --scenario windows/parallel --policy learned --export pods.json; "
    "proreus simulate rebalance --scenario snapshot --policy search --log moves.csv --watch 4",
)
