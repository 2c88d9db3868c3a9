"""`proreus bench NAME`: print the speed claims beside their peers."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, waiting, write_json
from proreus.compare.layout import Sheet, laid_out
from proreus.contract.benchmark import BenchRow, as_json
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError, unknown_name
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
    "engine": "proreus.bench.engine:bench_engine",
    "extender": "proreus.bench.extender:bench_extender",
    "kube": "proreus.bench.kube:bench_kube",
}


def benches() -> dict[str, str]:
    """Name -> "module:function", imported when it is asked for."""
    of_worlds = {name: world(name).bench for name in registered()}
    return {**{name: target for name, target in of_worlds.items() if target}, **SHARED}


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
    common: CommonArguments = field(default_factory=CommonArguments)


def _sizes(bench: Bench) -> list[tuple[str, object, object]]:
    """Name, annotation and default of the flags that a benchmark brings."""
    hints = get_type_hints(bench, include_extras=True)
    sizes: list[tuple[str, object, object]] = []
    for name, parameter in inspect.signature(bench).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            kind, says = get_args(hints[name])
            sizes.append((name, Annotated[kind, tyro.conf.arg(help=says)], parameter.default))
    return sizes


def run(words: Sequence[str]) -> int:
    """Exit code 0 when every goal holds, 1 when one does not."""
    known = benches()
    if not words or words[0].startswith("-"):
        parse(BenchArguments, "proreus bench NAME", words, _describe(known))
        raise UsageError(f"name a benchmark: {', '.join(known)}")
    name, *rest = words
    if name not in known:
        raise unknown_name("benchmark", name, known)
    bench = find(known[name])
    sizes = _sizes(bench)
    flags = [(size, kind, field(default=default)) for size, kind, default in sizes]
    kind = make_dataclass("BenchArguments", flags, bases=(BenchArguments,), frozen=True)
    about = f"{_what(known[name])}\n\nExample: proreus bench {name} --json bench.json"
    arguments: Any = parse(kind, f"proreus bench {name}", rest, about)
    prepare(arguments.common)
    asked = {size: getattr(arguments, size) for size, _, _ in sizes}
    console = new_console(arguments.common)
    rows = []
    with waiting(console, "compiling kernels (once)") as tell:
        for row in bench(data_dir(arguments.data), tell, **asked):
            rows.append(row)
    for part in laid_out(_sheet(name, rows), console.width):
        console.print(part)
    write_json(arguments.common, as_json(name, rows))
    return 0 if all(row.ok is not False for row in rows) else 1


def _describe(known: Mapping[str, str]) -> str:
    each = "\n".join(f"{name}: {_what(reference)}" for name, reference in known.items())
    return f"{each}\n\nExample: proreus bench pods --json bench.json"


def _what(reference: str) -> str:
    """What a benchmark shows: the first line of its module, which is not imported for it."""
    spec = importlib.util.find_spec(reference.partition(":")[0])
    if spec is None or spec.origin is None:
        return "no such benchmark"
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""
    line = docstring.partition("\n")[0]
    return line.partition(": ")[2] or line


def _sheet(name: str, rows: Sequence[BenchRow]) -> Sheet:
    return Sheet(
        title=f"proreus bench {name}",
        head=("what", "ours", "peer", "ratio", "goal", "ok"),
        rows=tuple(
            (
                row.what,
                f"{_number(row.ours)} {row.unit}",
                "" if row.peer is None else f"{_number(row.peer)} {row.unit} ({row.peer_name})",
                "" if row.ratio is None else f"{_number(row.ratio)}x",
                "" if row.goal is None else f"{_number(row.goal)} {row.unit}",
                {True: "yes", False: "NO", None: ""}[row.ok],
            )
            for row in rows
        ),
        left=frozenset({"ok"}),
    )


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
