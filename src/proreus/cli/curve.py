"""`proreus curve RUN...`: draw the learning curves of training runs from their journals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import tyro
from matplotlib.backends.backend_agg import FigureCanvasAgg

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.compare.learning_curves import curves_figure, held_out
from proreus.contract.user_scenarios import read_back
from proreus.learning.run_folder import JOURNAL, read_journal, read_settings
from proreus.model.errors import InputError, ProreusError, UsageError
from proreus.model.files import check_writable, write_atomically
from proreus.policies.checkpoint import CARD, is_checkpoint, read_card
from proreus.worlds import world


@dataclass(frozen=True)
class CurveArguments:
    """Flags of `proreus curve`."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of training runs."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("learning_curve.png")
    """The picture to write."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Draw the runs' held-out gains, and what they trained on, into one picture."""
    arguments = parse(
        CurveArguments, "proreus curve", words, "Example: proreus curve runs/x runs/y --out curve.png"
    )
    prepare(arguments.common)
    if not arguments.runs:
        raise UsageError("name the folder of at least one training run: proreus curve runs/x")
    check_writable(arguments.out)
    journals = {run.name: _journal_of(run) for run in arguments.runs}
    picture = BytesIO()
    gains = dict.fromkeys(_gain_of(run) for run in arguments.runs)
    figure = curves_figure(journals, "\n".join(gain for gain in gains if gain))
    FigureCanvasAgg(figure)
    figure.savefig(picture, format="png", dpi=120)
    write_atomically(arguments.out, picture.getvalue())
    new_console(arguments.common).print(f"curve: {arguments.out}", soft_wrap=True)
    curves = {name: held_out(journal) for name, journal in journals.items()}
    write_json(arguments.common, {"curves": curves})
    return 0


def _journal_of(run: Path) -> list[dict[str, Any]]:
    """What a run has recorded, which must be something."""
    entries = read_journal(run)
    if not entries:
        raise InputError("nothing is recorded here", file=run / JOURNAL)
    return entries


def _gain_of(run: Path) -> str:
    """What the held-out figures of a run are, with their unit; "": it has no best checkpoint yet."""
    if not is_checkpoint(run / "best"):
        return ""
    measure = next(iter(read_card(run / "best" / CARD).scores), "").partition(",")[0]
    unit = "" if measure.startswith("%") else _unit_of(run)
    return f"{measure}, {unit}" if unit else measure


def _unit_of(run: Path) -> str:
    """Of the measure that the run's first scenario is judged by; "": it cannot be told from here."""
    try:
        settings = read_settings(run)
        trained_world = world(str(settings["world"]))
        scenario = read_back(trained_world, settings["scenarios"][0], None)
    except (ProreusError, ValueError):  # its data, or the module that it comes from, is elsewhere
        return ""
    unit = trained_world.measures[scenario.yardstick()[0]].unit
    return "points" if unit.startswith("%") else unit
