"""`proreus data list | clean`: which datasets a data folder holds; raw logs cleaned (`data_clean`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from proreus.cli import data_clean
from proreus.cli.arguments import Common, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.model.errors import UsageError, unknown_name
from proreus.reading.catalogue import data_dir, holds, known
from proreus.worlds import registered, world

ACTIONS = ("list", "clean")


@dataclass(frozen=True)
class DataArguments:
    """Flags of `proreus data list`."""

    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """List the datasets, or clean a log."""
    example = "Example: proreus data list --data DIR (and see proreus data clean --help)"
    if not words or words[0].startswith("-"):
        parse(DataArguments, "proreus data list", words, example)
        raise UsageError(f"say what to do with the data: {', '.join(ACTIONS)}")
    action, *rest = words
    if action not in ACTIONS:
        raise unknown_name("action", action, ACTIONS)
    if action == "clean":
        return data_clean.run(rest)
    arguments = parse(DataArguments, f"proreus data {action}", rest, example)
    prepare(arguments.common)
    folder = data_dir(arguments.data)
    table = Table(
        title="datasets" + (f" in {folder}" if folder else " (no data folder given)"), title_justify="left"
    )
    for column in ("world", "name", "here", "what", "licence"):
        table.add_column(column)
    rows = []
    for of_world in registered():
        datasets = world(of_world).datasets
        for name, found in known(datasets, folder).items():
            here = holds(datasets, name, folder)
            about = {"what": found.what, "licence": found.licence}
            rows.append({"name": name, "here": here, **about, "world": of_world})
            table.add_row(of_world, name, "yes" if here else "no", *about.values())
    new_console(arguments.common).print(table)
    write_json(arguments.common, {"datasets": rows})
    return 0
