"""Learning curves from the journals of training runs: `proreus curve` and notebooks draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """(generation or update, mean fitness or return while training)."""
    points = []
    for entry in journal:
        if entry.get("fitness"):
            points.append((_place(entry), float(np.mean(entry["fitness"]))))
        elif entry.get("return") is not None:  # no episode had ended, or it is the start
            points.append((_place(entry), float(entry["return"])))
    return points


def _place(entry: Mapping[str, Any]) -> float:
    return float(entry["update"] if "update" in entry else entry["generation"] + 1)


def curves_figure(journals: Mapping[str, Journal]) -> Figure:
    """Held-out gains, and what the runs trained on, side by side."""
    figure = Figure(figsize=(10, 4), layout="constrained")
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
        if axes.get_legend_handles_labels()[1]:  # no episode may have ended in training
            axes.legend()
    return figure
