"""`proreus data list`: every dataset of every world, whether it is here, its licence and its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from proreus.cli.output import Output, new_console, write_json
from proreus.compare.layout import named_lines
from proreus.data.catalogue import Dataset, holds, known
from proreus.worlds import registered, world


def print_datasets(folder: Path | None, output: Output) -> int:
    """A paragraph for each dataset, or family of them; JSON has a row for each member."""
    console = new_console(output)
    where = f"datasets in {folder}" if folder else "datasets (no data folder: see proreus data fetch --help)"
    console.print(Text(where, style="bold"), soft_wrap=True)
    rows: list[dict[str, Any]] = []
    for of_world in registered():
        datasets = world(of_world).datasets
        members: dict[str, list[str]] = {}
        for name, dataset in known(datasets, folder).items():
            here = holds(datasets, name, folder)
            about = {"what": dataset.what, "licence": dataset.licence, "address": dataset.home}
            rows.append({"name": name, "here": here, **about, "world": of_world})
            key = next(key for key, candidate in datasets.items() if candidate is dataset)
            members.setdefault(key, []).extend([name] if here else [])
        for key, here_now in members.items():
            _print(console, of_world, key, datasets[key], here_now)
    write_json(output, {"datasets": rows})
    return 0


def _print(console: Console, of_world: str, name: str, dataset: Dataset, here: list[str]) -> None:
    state = ", ".join(here) if here and "*" in name else "yes" if here else "no"
    fetched = "proreus data fetch" if dataset.remotes else "by hand"
    console.print(Text.assemble((name, "bold"), f"  ({of_world})"), soft_wrap=True)
    source = f"{dataset.home} ({fetched})"
    pairs = [("what", dataset.what), ("licence", dataset.licence), ("from", source), ("here", state)]
    console.print(named_lines(pairs))
