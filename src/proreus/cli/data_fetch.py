"""`proreus data fetch NAME...`: bring public datasets into the data folder, each file checked by its sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.data_list import print_datasets
from proreus.cli.output import new_console, write_json
from proreus.data.catalogue import Dataset, data_dir, fetch_dir, remotes_of
from proreus.data.download import fetch, from_mirror
from proreus.data.remotes import Remote
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds import registered, world

EXAMPLE = (
    "Fetch public datasets, each file checked against its published checksum. "
    "Example: proreus data fetch openb/default; proreus data fetch openb huawei --data DIR"
)


@dataclass(frozen=True)
class FetchArguments:
    """Flags of `proreus data fetch`."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME")] = ()
    """Datasets: openb/default, or openb for all of a family."""
    list: bool = False
    """Only show what there is to fetch, with addresses and licences."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder to fetch to; or set PROREUS_DATA. Default: proreus in the user's folder for data."""
    mirror: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """Fetch from here and not from the public addresses: a copy of a data folder over HTTP."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Fetch what is named."""
    arguments = parse(FetchArguments, "proreus data fetch", words, EXAMPLE)
    prepare(arguments.common)
    if arguments.list:
        return print_datasets(data_dir(arguments.data), arguments.common)
    if not arguments.names:
        raise UsageError("name a dataset to fetch, or show what there is: proreus data fetch --list")
    wanted = {name: _dataset_of(name) for name in arguments.names}
    folder, console = fetch_dir(arguments.data), new_console(arguments.common)
    files = []
    for name, (dataset, remotes) in wanted.items():
        console.print(f"{name}: {dataset.what}\n  licence: {dataset.licence}\n  from: {dataset.home}")
        for remote in remotes:
            new = _fetch(from_mirror(remote, arguments.mirror), folder, console)
            console.print(f"  {'fetched' if new else 'here already'}: {folder / remote.file}", soft_wrap=True)
            files.append({"dataset": name, "file": str(folder / remote.file), "fetched": new})
    write_json(arguments.common, {"folder": str(folder), "files": files})
    return 0


def _dataset_of(name: str) -> tuple[Dataset, tuple[Remote, ...]]:
    """The dataset of a name in whichever world, and its public files."""
    family = name.partition("/")[0]
    known: dict[str, Dataset] = {}
    for datasets in (world(world_name).datasets for world_name in registered()):
        known |= datasets
        key = next((key for key in (name, f"{name}/*", f"{family}/*") if key in datasets), None)
        if key is None:
            continue
        dataset = datasets[key]
        if not dataset.remotes:
            raise InputError(
                f"the dataset {name!r} is fetched by hand, from {dataset.home}: "
                f"it belongs at {', '.join(dataset.files)} in the data folder"
            )
        return dataset, remotes_of(datasets, name)
    raise unknown_name("dataset", name, known)


def _fetch(remote: Remote, folder: Path, console: Console) -> bool:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(remote.file, total=remote.size)
        return fetch(remote, folder, lambda done, total: bar.update(task, completed=done, total=total))
