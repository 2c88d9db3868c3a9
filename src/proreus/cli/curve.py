"""`proreus curve RUN...`: draw the learning curves of training runs from their journals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import tyro
from matplotlib.backends.backend_agg import FigureCanvasAgg

from proreus.cli.arguments import Common, new_console, parse, prepare
from proreus.compare.learning_curves import curves_figure, held_out
from proreus.learning.runs import JOURNAL, read_journal
from proreus.model.errors import InputError
from proreus.model.files import check_writable, write_atomically


@dataclass(frozen=True)
class CurveArguments:
    """Flags of `proreus curve`."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of training runs."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("learning_curve.png")
    """The picture to write."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """Draw the runs' held-out gains, and what they trained on, into one picture."""
    arguments = parse(
        CurveArguments, "proreus curve", words, "Example: proreus curve runs/x runs/y --out curve.png"
    )
    prepare(arguments.common)
    check_writable(arguments.out)
    journals = {run.name: _journal_of(run) for run in arguments.runs}
    picture = BytesIO()
    figure = curves_figure(journals)
    FigureCanvasAgg(figure)
    figure.savefig(picture, format="png", dpi=120)
    write_atomically(arguments.out, picture.getvalue())
    new_console().print(f"curve: {arguments.out}", soft_wrap=True)
    if arguments.common.json is not None:
        curves = {name: held_out(journal) for name, journal in journals.items()}
        write_atomically(arguments.common.json, (json.dumps({"curves": curves}, indent=2) + "\n").encode())
    return 0


def _journal_of(run: Path) -> list[dict[str, Any]]:
    """What a run has recorded, which must be something."""
    entries = read_journal(run)
    if not entries:
        raise InputError("nothing is recorded here", file=run / JOURNAL)
    return entries
