"""`proreus kube shadow-report DIR`: where a shadow would have decided otherwise, and what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, waiting, write_json
from proreus.model.errors import UsageError, needs_extra

_DESCRIPTION = """What `proreus kube scheduler --mode shadow --record DIR` has found so far.

Example: proreus kube shadow-report shadow --price 0.40"""


@dataclass(frozen=True)
class ReportArguments:
    """Flags of `proreus kube shadow-report`."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Of --record."""
    price: float = 0.0
    """Dollars of a node for an hour, for a figure in dollars."""
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0.0 <= self.price < 1e6:
            raise UsageError(f"--price {self.price} is outside 0..1000000")


def run(words: Sequence[str]) -> int:
    """Print the report."""
    arguments = parse(ReportArguments, "proreus kube shadow-report", words, _DESCRIPTION)
    prepare(arguments.common)
    try:
        from proreus.kubeagents.scheduler.shadow_log import read_log
        from proreus.kubeagents.scheduler.shadow_report import add_up, told
    except ImportError as error:
        raise UsageError(f"kube shadow-report {needs_extra('engine')} ({error})") from error
    console = new_console(arguments.common)
    with waiting(console, "reading"):
        report = add_up(read_log(arguments.folder))
    console.print(told(report, arguments.price), soft_wrap=True, highlight=False, end="")
    write_json(arguments.common, report.to_json())
    return 0
