"""`proreus bench NAME`: print the speed claims beside their peers."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro
from rich.table import Table

from proreus.cli.arguments import Common, new_console, parse, prepare
from proreus.contract.claim import BenchRow, as_json
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import write_atomically
from proreus.reading.catalogue import data_dir
from proreus.worlds import registered, world

Bench = Callable[..., Iterator[BenchRow]]
"""Called with the folder of traces, if any, and with whom to tell what goes on.

Further parameters are keyword-only, have a default and an annotation `Annotated[type, "what it is"]`: each is
a flag of `proreus bench NAME`.
"""

# Claims that belong to no world; each world brings its own under its name.
SHARED = {
    "serve": "proreus.bench.serve:bench_serve",
    "train": "proreus.bench.train:bench_train",
    "gpu": "proreus.bench.gpu:bench_gpu",
    "clean": "proreus.bench.clean:bench_clean",
    "live": "proreus.bench.live:bench_live",
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
    common: Common = field(default_factory=Common)


def _sizes(bench: Bench) -> list[tuple[str, object, object]]:
    """Name, annotation and default of the flags that a benchmark brings."""
    hints = get_type_hints(bench, include_extras=True)
    found: list[tuple[str, object, object]] = []
    for name, parameter in inspect.signature(bench).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            kind, says = get_args(hints[name])
            found.append((name, Annotated[kind, tyro.conf.arg(help=says)], parameter.default))
    return found


def run(words: Sequence[str]) -> int:
    """Exit code 0 when every goal holds, 1 when one does not."""
    known = benches()
    if not words or words[0].startswith("-"):
        parse(BenchArguments, "proreus bench NAME", words, _describe())
        raise UsageError(f"name a benchmark: {', '.join(known)}")
    name, *rest = words
    if name not in known:
        raise unknown_name("benchmark", name, known)
    bench = find(known[name])
    sizes = _sizes(bench)
    flags = [(size, kind, field(default=default)) for size, kind, default in sizes]
    kind = make_dataclass("BenchArguments", flags, bases=(BenchArguments,), frozen=True)
    arguments: Any = parse(kind, f"proreus bench {name}", rest, _describe())
    prepare(arguments.common)
    asked = {size: getattr(arguments, size) for size, _, _ in sizes}
    console = new_console()
    rows = []
    with console.status("compiling kernels (once)") as status:
        for row in bench(data_dir(arguments.data), lambda text: status.update(text), **asked):
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
