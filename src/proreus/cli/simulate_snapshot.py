"""`proreus simulate rebalance` on a snapshot of virtual machines: measures, and a log of migrations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from proreus.cli.arguments import Common, new_console
from proreus.cli.simulate import measures_table, write_log, write_result
from proreus.cli.watching import screen
from proreus.contract.replay import Move
from proreus.model.files import write_atomically
from proreus.worlds.rebalance.flags import WindowArguments, rebalance_scenario_of
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.policy import SnapshotPlanner
from proreus.worlds.rebalance.snapshots.scenarios import SnapshotScenario, play_snapshot, warm_up
from proreus.worlds.rebalance.snapshots.simulation.screen import machine_lines
from proreus.worlds.rebalance.snapshots.simulation.world import MEASURES, SnapshotWorld
from proreus.worlds.rebalance.snapshots.state import fragment_rate
from proreus.worlds.rebalance.snapshots.traces.bytedance import snapshot_json


@dataclass(frozen=True)
class Wanted:
    """What a run shall leave beside its measures."""

    log: Path | None
    """The migrations, as CSV."""
    export: Path | None
    """The snapshot after them, as JSON."""
    watch: float
    """Migrations a second to look at; 0: none."""


def simulate_snapshot(workload: WindowArguments, policy: str, wanted: Wanted, common: Common) -> int:
    """Reschedule one snapshot and say what came of it."""
    scenario = rebalance_scenario_of(workload, workload.scenario)
    assert isinstance(scenario, SnapshotScenario)
    console = new_console()
    chosen = make_snapshot_policy(policy, common.seed)
    with console.status(f"reading {scenario.name}"):
        snapshot = scenario.load(common.seed)
    with console.status(f"compiling for {policy}"):
        warm_up(policy)
    if wanted.watch > 0:
        with screen(console, wanted.watch) as show:
            run = play_snapshot(
                snapshot, chosen, scenario.options, lambda world, move: show(_frame(world, move))
            )
    else:
        with console.status(f"{policy} on {scenario.name}"):
            run = play_snapshot(snapshot, chosen, scenario.options)
    measures = run.outcome.measures
    console.print(measures_table(f"{policy} on {scenario.name}", measures, MEASURES))
    if isinstance(chosen, SnapshotPlanner) and chosen.remark:
        console.print(chosen.remark)
    if wanted.log is not None:
        write_log(wanted.log, ["vm", "from", "to", "fragment_rate"], [list(row) for row in run.outcome.log])
        console.print(f"log: {wanted.log}")
    if wanted.export is not None:
        write_atomically(wanted.export, (json.dumps(snapshot_json(run.after), indent=1) + "\n").encode())
        console.print(f"snapshot: {wanted.export}")
    if common.json is not None:
        result = {"world": "rebalance", "scenario": scenario.name, "policy": policy, "seed": common.seed}
        write_result(common.json, {**result, "measures": measures})
    return 0


def _frame(world: SnapshotWorld, move: Move | None) -> list[str]:
    """The machines after a migration; None: before the first."""
    spent = world.options.budget - world.budget
    rate = 100 * fragment_rate(world.machines)
    head = f"{spent} of {world.options.budget} migrations, fragment rate {rate:.2f} %"
    if move is None:
        return [head, *machine_lines(world)]
    names = world.snapshot.machines
    told = f"{head}: {move.item} {names[move.source]} → {names[move.target]}"
    return [told, *machine_lines(world, move.source, move.target)]
