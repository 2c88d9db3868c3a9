"""`proreus models judge`: how good a model of the service is, on jobs that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.model.decision import action_count
from proreus.model.errors import UsageError
from proreus.model.estimate import estimate
from proreus.worlds.pods.datasets.k8ssim import read_nodes, read_workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.vector.model import SHIPPED, VectorModel, load_vector_model
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.vector.course import Course, Way, drive, gains, strongest_rule

FIRST_TEST_SEED = 3000
"""Neither trained on (1000 to 1399) nor chosen by (from 2000)."""
WAYS: tuple[Way, ...] = ("likeliest", "drawn", "masked")


@dataclass(frozen=True)
class JudgeArguments:
    """Flags of `proreus models judge`."""

    model: str = "vector"
    """A model that comes with the package (vector, vector-k8ssim), or the folder of a checkpoint."""
    nodes: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The k8s simulator's node file; without it clusters are generated."""
    jobs: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The simulator's job file: also play these jobs, beside binpack."""
    seeds: int = 30
    """Generated workloads, from seed 3000 on."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Judge a model on generated jobs and, where given, on the simulator's own."""
    example = "Example: proreus models judge --model vector-k8ssim --nodes nodes_500.yaml --jobs jobs.yaml"
    arguments = parse(JudgeArguments, "proreus models judge", words, example)
    prepare(arguments.common)
    if arguments.jobs is not None and arguments.nodes is None:
        raise UsageError("--jobs needs --nodes, the cluster they run on")
    if arguments.seeds < 2:
        raise UsageError(f"--seeds {arguments.seeds}: an interval needs at least 2")
    model = load_vector_model(SHIPPED.get(arguments.model, Path(arguments.model)))
    nodes = () if arguments.nodes is None else read_nodes(arguments.nodes)
    if nodes:
        actions = action_count(len(nodes))
        complaint = model.accepts(actions, actions)
        if complaint is not None:
            raise UsageError(f"--model {arguments.model}: {complaint}")
    console = new_console(arguments.common)
    result: dict[str, Any] = {"model": arguments.model}
    if arguments.jobs is not None and arguments.nodes is not None:
        result["jobs"] = _play(
            console, model, compile_workload(read_workload(arguments.nodes, arguments.jobs))
        )
    result["generated"] = _compare(console, model, Course(nodes), arguments)
    write_json(arguments.common, result)
    return 0


def _play(console: Console, model: VectorModel, compiled: Compiled) -> list[dict[str, Any]]:
    """The simulator's own jobs, by the model and by binpack."""
    outcomes = {f"model, {way}": drive(model, compiled, way) for way in WAYS}
    outcomes["binpack"] = simulate(compiled, make_policy("binpack"))
    tasks, nodes = len(compiled.workload.pods), len(compiled.workload.nodes)
    table = Table(title=f"{tasks} tasks on {nodes} nodes", title_justify="left")
    for column in ("policy", "mean completion", "makespan"):
        table.add_column(column)
    rows = []
    for name, outcome in outcomes.items():
        mean, makespan = outcome.measures["jct_mean"], outcome.measures["makespan"]
        table.add_row(name, f"{mean:.2f} s", f"{makespan:.1f} s")
        rows.append({"policy": name, "mean_completion": mean, "makespan": makespan})
    console.print(table)
    return rows


def _compare(
    console: Console, model: VectorModel, course: Course, arguments: JudgeArguments
) -> list[dict[str, Any]]:
    """Gains over the strongest rule on generated jobs, with 95 % intervals."""
    seeds = tuple(range(FIRST_TEST_SEED, FIRST_TEST_SEED + arguments.seeds))
    with console.status("playing the rules"):
        rule = strongest_rule(course, seeds)
    table = Table(title=f"gain over {rule} on {arguments.seeds} generated workloads", title_justify="left")
    for column in ("asked", "measure", "gain", "95 % interval"):
        table.add_column(column)
    rows: list[dict[str, Any]] = []
    for way in WAYS:
        with console.status(f"playing the model, {way}"):
            measured = gains(model, course, seeds, way)
        for k, measure in enumerate(("mean completion", "makespan")):
            e = estimate(measured[:, k].tolist())
            table.add_row(way, measure, f"{e.mean:+.1f} %", f"{e.low:+.1f} to {e.high:+.1f}")
            gain = {"gain": e.mean, "low": e.low, "high": e.high, "n": arguments.seeds}
            rows.append({"asked": way, "measure": measure, "rule": rule, **gain})
    console.print(table)
    return rows
