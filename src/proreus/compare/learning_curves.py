"""Learning curves from the journals of training runs: `proreus curve` and notebooks draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

Journal = Sequence[Mapping[str, Any]]


def held_out(journal: Journal) -> list[tuple[float, float]]:
    """(generation or update, mean gain on held-out seeds) where the run was judged."""
    return [
        (_place(entry), float(np.mean(list(entry["validation"].values()))))
        for entry in journal
        if entry["validation"]
    ]


def trained(journal: Journal) -> list[tuple[float, float]]:
    """(generation or update, mean fitness, return or agreement while training)."""
    points = []
    for entry in journal:
        if entry.get("fitness"):
            points.append((_place(entry), float(np.mean(entry["fitness"]))))
        for figure in ("return", "agreement"):
            if entry.get(figure) is not None:  # no episode had ended, or it is the start
                points.append((_place(entry), float(entry[figure])))
    return points


def _place(entry: Mapping[str, Any]) -> float:
    return float(entry["update"] if "update" in entry else entry["generation"] + 1)


def curves_figure(journals: Mapping[str, Journal], gain: str = "") -> Figure:
    """Held-out gains, and what the runs trained on, side by side; `gain`: what is held out, with its unit.

    An evolution strategy's fitness, a learner's return and a pupil's agreement with its teacher are different
    things: each has a plot of its own.
    """
    kinds = {name: _trains_on(journal) for name, journal in journals.items()}
    shown = list(dict.fromkeys(kinds.values()))
    figure = Figure(figsize=(5 * (1 + len(shown)), 4), layout="constrained")
    judged, *training = figure.subplots(1, 1 + len(shown))
    for name, journal in journals.items():
        beside = training[shown.index(kinds[name])]
        for axes, points, marker in ((judged, held_out(journal), "o-"), (beside, trained(journal), ".-")):
            if points:
                axes.plot(*zip(*points, strict=True), marker, label=name, markersize=3, linewidth=1.4)
    judged.axhline(0.0, color="grey", linewidth=0.8)
    judged.set_title("Held out")
    judged.set_ylabel(gain or "gain over the strongest rule")
    judged.set_xlabel(" or ".join(dict.fromkeys(kind.step for kind in shown)))
    for axes, kind in zip(training, shown, strict=True):
        axes.set_title("Training")
        axes.set_ylabel(kind.figure)
        axes.set_xlabel(kind.step)
    for axes in (judged, *training):
        if axes.get_legend_handles_labels()[0]:  # no episode may have ended in training
            axes.legend()
    return figure


@dataclass(frozen=True)
class _TrainsOn:
    """What a run counts, and what it is rewarded with."""

    step: str
    figure: str


def _trains_on(journal: Journal) -> _TrainsOn:
    if any("fitness" in entry for entry in journal):
        return _TrainsOn("generation", "mean fitness of the population, as held out")
    if any("agreement" in entry for entry in journal):
        return _TrainsOn("update", "share of the teacher's choices that the pupil makes, too")
    return _TrainsOn("update", "mean return of an episode, in rewards")
