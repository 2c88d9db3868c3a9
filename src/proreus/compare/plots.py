"""The comparison as PNG and SVG files for papers and slides. `outputs` calls `render_plots`.

Figures are made without pyplot: nothing is left behind in the process, and no display is needed.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from proreus.compare.comparison import Comparison
from proreus.compare.curves import Chart, charts_of
from proreus.compare.number_format import with_unit
from proreus.compare.ranking import Ranking, standing
from proreus.contract.scenario import Scenario
from proreus.contract.world import Recording, World
from proreus.model.errors import UsageError

# The colours of the report's style sheet.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")
_LONGEST_LABEL = 28
_DASHES = ("-", "--", ":")
_FALLBACK_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans", "Arial Unicode MS")


def render_plots(comparison: Comparison) -> dict[str, bytes]:
    """File name -> content, for every scenario: ranking and curves, each as PNG and as SVG."""
    content: dict[str, bytes] = {}
    with _settings():
        for stem, scenario in zip(_stems(comparison), comparison.request.scenarios, strict=True):
            order = standing(comparison, scenario)
            if order is not None:
                content |= _saved(f"{stem}-ranking", _ranking(order, comparison.request.policies))
            for chart in charts_of(comparison, scenario):
                if chart.file:
                    figure = _curves(chart, scenario.name, comparison.request.policies)
                    content |= _saved(f"{stem}-{chart.file}", figure)
    return content


def ranking_figure(comparison: Comparison, scenario: Scenario) -> Figure:
    """The policies of a scenario in order, with their intervals."""
    order = standing(comparison, scenario)
    if order is None:
        raise UsageError(f"{scenario.name}: no measure of these runs could rank the policies")
    with _settings():
        return _ranking(order, comparison.request.policies)


def series_figure(title: str, world: World, recording: Recording) -> Figure:
    """One run over time, the first four quantities of its world that are not zero throughout."""
    drawn = [quantity for quantity in world.quantities if np.any(recording.series.get(quantity.key, 0.0))][:4]
    if not drawn:
        raise UsageError(f"{title}: there is nothing to draw")
    with _settings():
        figure = Figure(figsize=(7, 1.2 + 1.6 * len(drawn)), layout="constrained")
        for axes, quantity in zip(
            np.atleast_1d(figure.subplots(len(drawn), sharex=True)), drawn, strict=True
        ):
            axes.plot(recording.time, recording.series[quantity.key], color=_COLOURS[0], linewidth=1.4)
            axes.set_ylabel(with_unit(quantity.title, quantity.unit), fontsize=8)
            _tidy(axes)
        figure.suptitle(title, fontsize=11)
    return figure


@contextmanager
def _settings() -> Iterator[None]:
    """Names are text and not formulas, equal figures give equal bytes, any script gets a font there is."""
    here = set(font_manager.get_font_names())
    fonts = ["DejaVu Sans", *(font for font in _FALLBACK_FONTS if font in here)]
    settings = {"text.parse_math": False, "svg.hashsalt": "proreus", "font.family": fonts}
    with mpl.rc_context(settings), warnings.catch_warnings():  # type: ignore[arg-type]
        # A sign that no font here has is drawn as a box, which is no reason to fail.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def _stems(comparison: Comparison) -> list[str]:
    """A file name for each scenario: plain letters, and no two alike."""
    stems: list[str] = []
    for scenario in comparison.request.scenarios:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", scenario.name).strip("-.") or "scenario"
        stem, count = plain, 2
        while stem in stems:
            stem, count = f"{plain}-{count}", count + 1
        stems.append(stem)
    return stems


def _style(policies: Sequence[str], policy: str) -> tuple[str, str]:
    place = policies.index(policy)
    return _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]


def _ranking(order: Ranking, policies: Sequence[str]) -> Figure:
    count = len(order.ranked)
    figure = Figure(figsize=(7, 1.4 + 0.38 * count), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(order.ranked):
        colour, _ = _style(policies, row.policy)
        half = row.estimate.half
        axes.errorbar(row.estimate.mean, place, xerr=half, fmt="o", color=colour, capsize=4)
    axes.set_yticks(range(count), [_label(row.policy) for row in order.ranked])
    axes.set_ylim(count - 0.5, -0.5)
    unit = f"({order.unit})" if order.unit else ""
    way = "more" if order.better == "higher" else "less"
    axes.set_xlabel(f"{with_unit(order.title, unit)}, {way} is better")
    axes.set_title(f"{order.scenario.name}: mean and 95 % interval", fontsize=11)
    _tidy(axes)
    return figure


def _curves(chart: Chart, scenario: str, policies: Sequence[str]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    drawn = []
    for policy, values in chart.series.items():
        colour, dashes = _style(policies, policy)
        drawn += axes.plot(chart.axis.values, values, color=colour, linestyle=dashes, linewidth=1.6)
    axes.legend(drawn, [_label(policy) for policy in chart.series], fontsize=9, frameon=False)
    axes.set_xlabel(chart.axis.title)
    axes.set_ylabel(chart.unit)
    axes.set_title(f"{scenario}: {chart.title}", fontsize=11)
    _tidy(axes)
    return figure


def _label(policy: str) -> str:
    """A name that leaves room for the picture: of a long path its end."""
    return policy if len(policy) <= _LONGEST_LABEL else f"…{policy[1 - _LONGEST_LABEL :]}"


def _tidy(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _saved(stem: str, figure: Figure) -> dict[str, bytes]:
    FigureCanvasAgg(figure)
    picture, drawing = io.BytesIO(), io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    figure.savefig(drawing, format="svg", metadata={"Date": None})
    return {f"{stem}.png": picture.getvalue(), f"{stem}.svg": drawing.getvalue()}
