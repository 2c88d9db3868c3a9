"""`proreus data list | fetch | clean`: what a data folder holds, getting public data, cleaning raw logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli import data_clean, data_fetch
from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.data_list import print_datasets
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError, unknown_name

ACTIONS = ("list", "fetch", "clean")


@dataclass(frozen=True)
class DataArguments:
    """Flags of `proreus data list`."""

    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA. Default: where proreus data fetch puts them."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """List the datasets, fetch some, or clean a log."""
    example = "Example: proreus data list --data DIR (and see proreus data fetch|clean --help)"
    if not words or words[0].startswith("-"):
        parse(DataArguments, "proreus data list", words, example)
        raise UsageError(f"say what to do with the data: {', '.join(ACTIONS)}")
    action, *rest = words
    match action:
        case "fetch":
            return data_fetch.run(rest)
        case "clean":
            return data_clean.run(rest)
        case "list":
            arguments = parse(DataArguments, "proreus data list", rest, example)
            prepare(arguments.common)
            return print_datasets(data_dir(arguments.data), arguments.common)
        case _:
            raise unknown_name("action", action, ACTIONS)
