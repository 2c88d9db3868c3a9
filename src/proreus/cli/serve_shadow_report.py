"""`proreus serve shadow-report FILE`: what a scaler's policy in shadow would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, waiting, write_json
from proreus.model.errors import UsageError, needs_extra

_DESCRIPTION = """What `proreus serve scaler --shadow-log FILE` has found so far: GPU-hours held by
whoever scales, beside those that the policy in shadow would have held.

Example: proreus serve shadow-report shadow.jsonl --price 2.50"""


@dataclass(frozen=True)
class ReportArguments:
    """Flags of `proreus serve shadow-report`."""

    log: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Of --shadow-log; the file before it, FILE.1, is read too."""
    price: float = 0.0
    """Dollars of a GPU for an hour, for a figure in dollars."""
    gpus: int = 0
    """GPUs of a replica, where the trigger gives its ability in numbers; 0: as the log has it."""
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0.0 <= self.price < 1e6:
            raise UsageError(f"--price {self.price} is outside 0..1000000")
        if not 0 <= self.gpus <= 1024:
            raise UsageError(f"--gpus {self.gpus} is outside 0..1024")


def run(words: Sequence[str]) -> int:
    """Print the report."""
    arguments = parse(ReportArguments, "proreus serve shadow-report", words, _DESCRIPTION)
    prepare(arguments.common)
    try:
        from proreus.serving.scaler.shadow_report import add_up, read_log, told
    except ImportError as error:
        raise UsageError(f"serve shadow-report {needs_extra('serve')} ({error})") from error
    console = new_console(arguments.common)
    with waiting(console, "reading"):
        reports = add_up(read_log(arguments.log), arguments.gpus)
    console.print(told(reports, arguments.price), soft_wrap=True, highlight=False, end="")
    write_json(arguments.common, {name: report.to_json() for name, report in reports.items()})
    return 0
