"""`proreus bench NAME`: print the speed claims beside their peers."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from proreus.cli.arguments import Common, new_console, parse, prepare
from proreus.contract.claim import BenchRow, as_json
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import write_atomically
from proreus.reading.catalogue import data_dir
from proreus.worlds import registered, world

Bench = Callable[..., Iterator[BenchRow]]
"""Of a folder of data or None, and of who hears what is going on; with --full, of `full=True` too."""

# Claims that belong to no world; each world brings its own under its name.
SHARED = {
    "serve": "proreus.bench.serve:bench_serve",
    "train": "proreus.bench.train:bench_train",
    "gpu": "proreus.bench.gpu:bench_gpu",
    "clean": "proreus.bench.clean:bench_clean",
}


def benches() -> dict[str, str]:
    """Name -> "module:function", imported when it is asked for."""
    of_worlds = {name: world(name).bench for name in registered()}
    return {**{name: found for name, found in of_worlds.items() if found}, **SHARED}


def find(reference: str) -> Bench:
    """The function behind a reference."""
    module, _, name = reference.partition(":")
    bench: Bench = getattr(importlib.import_module(module), name)
    return bench


@dataclass(frozen=True)
class BenchArguments:
    """Flags of `proreus bench`."""

    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder of real traces (or PROREUS_DATA); without one a generated workload stands in."""
    full: bool = False
    """pods: the scenario large at its full size, for some minutes."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """Exit code 0 when every goal holds, 1 when one does not."""
    known = benches()
    if not words or words[0].startswith("-"):
        parse(BenchArguments, "proreus bench NAME", words, _describe())
        raise UsageError(f"name a benchmark: {', '.join(known)}")
    name, *rest = words
    if name not in known:
        raise unknown_name("benchmark", name, known)
    arguments = parse(BenchArguments, f"proreus bench {name}", rest, _describe())
    prepare(arguments.common)
    bench = find(known[name])
    if arguments.full and "full" not in inspect.signature(bench).parameters:
        raise UsageError(f"bench {name} has one size: leave out --full")
    sizes = {"full": True} if arguments.full else {}
    console = new_console()
    rows = []
    with console.status("compiling kernels (once)") as status:
        for row in bench(data_dir(arguments.data), lambda text: status.update(text), **sizes):
            rows.append(row)
    console.print(_table(name, rows))
    if arguments.common.json is not None:
        text = json.dumps(as_json(name, rows), indent=2) + "\n"
        write_atomically(arguments.common.json, text.encode())
    return 0 if all(row.ok is not False for row in rows) else 1


def _describe() -> str:
    return f"Benchmarks: {', '.join(benches())}. Example: proreus bench pods --json bench.json"


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
