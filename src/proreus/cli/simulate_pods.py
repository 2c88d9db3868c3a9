"""`proreus simulate pods`: one policy over one workload, with its measures, its log and its reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, assert_never

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from proreus.cli.arguments import Common, new_console, prepare
from proreus.cli.simulate import measures_table, write_log, write_result
from proreus.cli.worlds import WorldCommand
from proreus.model.decision import Delay, Place, Preempt, Reject
from proreus.model.errors import unknown_name
from proreus.model.files import check_writable
from proreus.policies.protocol import Explanation, NodeVerdict, Policy
from proreus.worlds.pods.flags import WorkloadArguments, scenario_of
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import POLICIES, PolicyOptions, make_policy
from proreus.worlds.pods.simulation.outcome import MEASURES, Outcome
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.observation import PodObservation

_MOST_NODES_SHOWN = 40
_LOG_COLUMNS = ("pod", "status", "node", "arrival", "start", "finish", "evictions")


@dataclass(frozen=True)
class SimulateArguments:
    """Flags of `proreus simulate pods`."""

    policy: str = "kube"
    """The policy, by name."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)
    policy_tuning: PolicyOptions = field(default_factory=PolicyOptions)
    explain: Annotated[str, tyro.conf.arg(metavar="POD")] = ""
    """Print, per filter and per score, why this pod went where it went."""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write one CSV row per pod: status, node, arrival, start, finish, evictions."""
    common: Common = field(default_factory=Common)


def run(arguments: SimulateArguments, command: str) -> int:
    """Run the simulation and print its measures."""
    prepare(arguments.common)
    if arguments.log is not None:
        check_writable(arguments.log)
    policy = make_policy(arguments.policy, arguments.policy_tuning, arguments.common.seed)
    scenario = scenario_of(arguments.workload)
    console = new_console()
    with console.status(f"reading {scenario.name}"):
        compiled = compile_workload(scenario.source.load(arguments.common.seed))
    outcome = _run(compiled, policy, arguments, console)
    console.print(measures_table(f"{arguments.policy} on {scenario.name}", outcome.measures, MEASURES))
    if arguments.log is not None:
        write_log(arguments.log, _LOG_COLUMNS, outcome.log)
        console.print(f"log: {arguments.log}")
    if arguments.common.json is not None:
        result = {
            "world": "pods",
            "scenario": scenario.name,
            "policy": arguments.policy,
            "seed": arguments.common.seed,
            "measures": outcome.measures,
        }
        write_result(arguments.common.json, result)
    return 0


def _run(compiled: Compiled, policy: Policy, arguments: SimulateArguments, console: Console) -> Outcome:
    options = scenario_of(arguments.workload).options
    if not arguments.explain:
        total = len(compiled.workload.pods)
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} decisions"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        with bar:
            task = bar.add_task(policy.name, total=total)
            return simulate(
                compiled,
                policy,
                options,
                watch=lambda count: bar.update(task, completed=count, total=max(total, count)),
            )
    names = [pod.name for pod in compiled.workload.pods]
    if arguments.explain not in names:
        raise unknown_name("pod", arguments.explain, names)
    subject = names.index(arguments.explain)

    def inspect(observation: PodObservation) -> None:
        if observation.pod == subject:
            console.print(_explanation_table(policy.explain(observation), observation))

    return simulate(compiled, policy, options, inspect=inspect)


def _explanation_table(explanation: Explanation, observation: PodObservation) -> Table:
    nodes = observation.compiled.workload.nodes
    match explanation.decision:
        case Place(node=node):
            verdict = f"goes to {nodes[node].name}"
        case Preempt(node=node):
            victims = observation.victims(node)
            evicted = [observation.compiled.workload.pods[p].name for p in victims[0]] if victims else []
            verdict = f"evicts {', '.join(evicted)} from {nodes[node].name} and goes there"
        case Delay():
            verdict = "has to wait: no node may take it"
        case Reject():
            verdict = "is rejected"
        case _:
            assert_never(explanation.decision)
    table = Table(
        title=f"t={observation.now:g} s: {explanation.pod} {verdict} ({explanation.policy})",
        title_justify="left",
    )
    varying, constant = _split_scores(explanation)
    table.add_column("node", no_wrap=True)
    for name in varying:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("total", justify="right", no_wrap=True)
    table.add_column("refused by", overflow="fold")
    ranked = sorted(explanation.verdicts, key=lambda v: (bool(v.refused_by), not v.scores, -v.total))
    for found in ranked[:_MOST_NODES_SHOWN]:
        cells = [_score(found.scores[name]) if name in found.scores else "" for name in varying]
        table.add_row(found.node, *cells, _total(found), found.refused_by)
    notes = [explanation.note]
    if constant:
        notes.append(
            "The same everywhere: " + ", ".join(f"{n} {_score(v)}" for n, v in constant.items()) + "."
        )
    if len(ranked) > _MOST_NODES_SHOWN:
        notes.append(f"{len(ranked) - _MOST_NODES_SHOWN} more nodes not shown.")
    table.caption = " ".join(notes)
    table.caption_justify = "left"
    return table


def _split_scores(explanation: Explanation) -> tuple[list[str], dict[str, float]]:
    """Scores that differ between nodes (as columns) and those that do not (as a remark)."""
    values: dict[str, set[float]] = {}
    for verdict in explanation.verdicts:
        for name, value in verdict.scores.items():
            values.setdefault(name, set()).add(value)
    constant = {name: seen.pop() for name, seen in values.items() if len(seen) == 1}
    return [name for name in values if name not in constant], constant


def _total(verdict: NodeVerdict) -> str:
    if verdict.scores:
        return _score(verdict.total)
    return "" if verdict.refused_by else "not looked at"


def _score(value: float) -> str:
    return f"{value:,.0f}" if value == math.floor(value) else f"{value:,.3f}"


COMMAND = WorldCommand(
    SimulateArguments,
    run,
    f"Policies: {', '.join(POLICIES)}.\n\n"
    "Example: proreus simulate pods --scenario small --policy kube --explain app-003-4",
)
