"""`proreus simulate rebalance` on a snapshot of virtual machines: measures, and a log of migrations."""

from __future__ import annotations

from pathlib import Path

from proreus.cli.arguments import Common, new_console
from proreus.cli.simulate import measures_table, write_log, write_result
from proreus.cli.windows_workloads import WindowArguments, rebalance_scenario_of
from proreus.compare.snapshots import SnapshotScenario, play_snapshot
from proreus.policies.rebalance.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshot import MEASURES


def simulate_snapshot(workload: WindowArguments, policy: str, log: Path | None, common: Common) -> int:
    """Reschedule one snapshot and say what came of it."""
    scenario = rebalance_scenario_of(workload, workload.scenario)
    assert isinstance(scenario, SnapshotScenario)
    console = new_console()
    chosen = make_snapshot_policy(policy, common.seed)
    with console.status(f"{policy} on {scenario.name}"):
        run = play_snapshot(scenario.load(common.seed), chosen, scenario.options)
    measures = run.outcome.measures
    console.print(measures_table(f"{policy} on {scenario.name}", measures, MEASURES))
    if log is not None:
        write_log(log, ["vm", "from", "to", "fragment_rate"], [list(row) for row in run.outcome.log])
        console.print(f"log: {log}")
    if common.json is not None:
        result = {"world": "rebalance", "scenario": scenario.name, "policy": policy, "seed": common.seed}
        write_result(common.json, {**result, "measures": measures})
    return 0
