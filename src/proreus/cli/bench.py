"""`proreus bench NAME`: print the speed claims beside their peers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from proreus.bench.clean import bench_clean
from proreus.bench.gpu import bench_gpu
from proreus.bench.serve import bench_serve
from proreus.bench.train import bench_train
from proreus.cli.arguments import Common, new_console, parse, prepare
from proreus.contract.claim import BenchRow, as_json
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import write_atomically
from proreus.reading.catalogue import data_dir
from proreus.worlds.pods.bench import bench_pods
from proreus.worlds.rebalance.bench import bench_rebalance
from proreus.worlds.vms.bench.claims import bench_vms

BENCHES: dict[str, Callable[[Path | None, Callable[[str], None]], Iterator[BenchRow]]] = {
    "pods": bench_pods,
    "serve": bench_serve,
    "train": bench_train,
    "gpu": bench_gpu,
    "vms": bench_vms,
    "clean": bench_clean,
    "rebalance": bench_rebalance,
}


@dataclass(frozen=True)
class BenchArguments:
    """Flags of `proreus bench`."""

    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder of real traces (or PROREUS_DATA); without one a generated workload stands in."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """Exit code 0 when every goal holds, 1 when one does not."""
    if not words or words[0].startswith("-"):
        parse(BenchArguments, "proreus bench NAME", words, _describe())
        raise UsageError(f"name a benchmark: {', '.join(BENCHES)}")
    name, *rest = words
    if name not in BENCHES:
        raise unknown_name("benchmark", name, BENCHES)
    arguments = parse(BenchArguments, f"proreus bench {name}", rest, _describe())
    prepare(arguments.common)
    console = new_console()
    rows = []
    with console.status("compiling kernels (once)") as status:
        for row in BENCHES[name](data_dir(arguments.data), lambda text: status.update(text)):
            rows.append(row)
    console.print(_table(name, rows))
    if arguments.common.json is not None:
        text = json.dumps(as_json(name, rows), indent=2) + "\n"
        write_atomically(arguments.common.json, text.encode())
    return 0 if all(row.ok is not False for row in rows) else 1


def _describe() -> str:
    return f"Benchmarks: {', '.join(BENCHES)}. Example: proreus bench pods --json bench.json"


def _table(name: str, rows: Sequence[BenchRow]) -> Table:
    table = Table(title=f"proreus bench {name}", title_justify="left")
    for column, justify in (
        ("what", "left"),
        ("ours", "right"),
        ("peer", "right"),
        ("ratio", "right"),
        ("goal", "right"),
        ("ok", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        peer = "" if row.peer is None else f"{_number(row.peer)} {row.unit} ({row.peer_name})"
        table.add_row(
            row.what,
            f"{_number(row.ours)} {row.unit}",
            peer,
            "" if row.ratio is None else f"{_number(row.ratio)}x",
            "" if row.goal is None else f"{_number(row.goal)} {row.unit}",
            {True: "yes", False: "NO", None: ""}[row.ok],
        )
    return table


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
