"""`proreus curve RUN...`: draw the learning curves of training runs from their journals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from proreus.cli.arguments import Common, new_console, parse, prepare
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
    write_atomically(arguments.out, draw(journals))
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


def held_out(journal: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """(generation or update, mean gain on held-out seeds) where the run was judged."""
    return [
        (_place(entry), float(np.mean(list(entry["validation"].values()))))
        for entry in journal
        if entry["validation"]
    ]


def trained(journal: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """(generation or update, mean fitness or return while training)."""
    points = []
    for entry in journal:
        value = float(np.mean(entry["fitness"])) if "fitness" in entry else float(entry.get("return", np.nan))
        points.append((_place(entry), value))
    return points


def _place(entry: dict[str, Any]) -> float:
    return float(entry["update"] if "update" in entry else entry["generation"] + 1)


def draw(journals: dict[str, list[dict[str, Any]]]) -> bytes:
    """The picture as PNG."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    judged, training = figure.subplots(1, 2)
    for name, journal in journals.items():
        for axes, points, marker in ((judged, held_out(journal), "o-"), (training, trained(journal), "-")):
            if points:
                axes.plot(*zip(*points, strict=True), marker, label=name, markersize=3, linewidth=1.4)
    judged.axhline(0.0, color="grey", linewidth=0.8)
    judged.set_title("Held out: gain over the strongest rule")
    training.set_title("Training: mean fitness or return")
    for axes in (judged, training):
        axes.set_xlabel("generation or update")
        axes.legend()
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
