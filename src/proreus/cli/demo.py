"""`proreus demo`: the main job in a few minutes. Compares the strongest rules and ends with a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.compare import Destination, compare_and_write, seeds_from
from proreus.cli.output import new_console
from proreus.compare.comparison import CompareRequest
from proreus.worlds import world

POLICIES = (
    "learned",
    "kube",
    "kube_plus",
    "fgd",
    "best_fit",
    "gpu_packing",
    "gpu_clustering",
    "dot_prod",
    "random",
)


@dataclass(frozen=True)
class DemoArguments:
    """Flags of `proreus demo`."""

    seeds: int = 10
    """How many seeds."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reports/demo")
    """Where the report goes."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    arguments = parse(
        DemoArguments, "proreus demo", words, "Example: proreus demo --seeds 3 --out reports/demo"
    )
    prepare(arguments.common)
    console = new_console(arguments.common)
    console.print(
        "Pods with shared and whole GPUs arrive at a 120-node cluster until demand is 130 % of it; "
        "then pods queue, leave and evict each other on 20 ordinary nodes."
    )
    flags = world("pods").flags()
    request = CompareRequest(
        scenarios=(flags.chosen("gpu"), flags.chosen("small")),
        policies=POLICIES,
        seeds=seeds_from(arguments.common.seed, arguments.seeds),
    )
    command = f"proreus demo --seeds {arguments.seeds} --seed {arguments.common.seed} --out {arguments.out}"
    to = Destination(arguments.out, arguments.common, command)
    outputs = compare_and_write(request, to, console)
    console.print(f"Open {outputs.report.resolve()} in a browser.", soft_wrap=True)
    return 0
