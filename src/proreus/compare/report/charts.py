"""Inline SVG for the report: the ranking with its intervals, and curves. Colours come from the style sheet.

A policy is known by its place in the request: class `p3` gives its colour, `data-policy` is what the script
finds it by. `report` calls this; `report_data` gives the script the frame in which a curve was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from proreus.compare.curves import Chart
from proreus.compare.number_format import decimals_for, half_width, number, plus_minus, signed, with_unit
from proreus.compare.ranking import Ranking
from proreus.compare.statistics import Difference
from proreus.compare.trials import TrialResult
from proreus.model.estimate import Estimate

COLOURS = 7
"""The style sheet has so many; then dashes tell policies apart."""

_LONGEST_NAME = 22


def policy_class(place: int) -> str:
    """The style of the policy at that place of the request."""
    return f"p{place % COLOURS} d{place // COLOURS % 3}"


@dataclass(frozen=True)
class Frame:
    """Where data is drawn: a box in the picture and the ranges it stands for."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        """The place of a value across."""
        return self.left + _share(value, self.x_range) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The place of a value upwards."""
        return self.bottom - _share(value, self.y_range) * (self.bottom - self.top)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers within a range."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def curve_frame(chart: Chart) -> Frame:
    """The frame of a curve chart; it starts at zero unless the chart shows a part only."""
    values = np.concatenate(list(chart.series.values()))
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if not chart.note:
        low = min(low, 0.0)
    margin = 0.06 * ((high - low) or 1.0)
    places = chart.axis.values
    bottom = low - margin if chart.note else low
    return Frame(54, 628, 10, 226, (float(places[0]), float(places[-1])), (bottom, high + margin))


def curve_chart(chart: Chart, policies: Sequence[str], element: str) -> str:
    """All policies' curves; `element` is the id under which the script finds the data."""
    frame = curve_frame(chart)
    label = f"{chart.title} over {chart.axis.title}, one line per policy"
    lines = "".join(
        f'<path class="line {policy_class(place)}" data-policy="{place}" '
        f'd="{_path(frame, chart.axis.values, chart.series[policy])}"/>'
        for place, policy in enumerate(policies)
        if policy in chart.series
    )
    middle = (frame.left + frame.right) / 2
    return (
        f'<svg class="chart curve" id="{element}" viewBox="0 0 640 274" role="img" '
        f'aria-label="{escape(label)}">'
        f"{horizontal_grid(frame)}{bottom_ticks(frame)}"
        f'<text class="axis" x="{middle}" y="268" text-anchor="middle">{escape(chart.axis.title)}</text>'
        f'{lines}<line class="cursor" y1="{frame.top}" y2="{frame.bottom}"/></svg>'
    )


def ranking_chart(order: Ranking, results: Sequence[TrialResult], policies: Sequence[str]) -> str:
    """A line per policy, best first: every seed as a faint dot, the mean with its 95 % interval."""
    decimals = decimals_for([row.estimate.mean for row in order.ranked], order.unit)
    entries = [
        _Entry(
            row.policy,
            policies.index(row.policy),
            row.estimate,
            [
                result.measures[order.measure]
                for result in results
                if result.policy == row.policy and math.isfinite(result.measures.get(order.measure, math.nan))
            ],
            with_unit(plus_minus(row.estimate, decimals), order.unit),
        )
        for row in order.ranked
    ]
    axis = with_unit(order.title, f"({order.unit})" if order.unit else "")
    arrow = "more is better →" if order.better == "higher" else "← less is better"
    return _interval_chart(entries, f"{axis}, {arrow}")


def difference_chart(order: Ranking, differences: Mapping[str, Difference], policies: Sequence[str]) -> str:
    """How far each policy is from the leader, seed by seed; significant where the interval clears zero."""
    unit = "points" if order.unit.startswith("%") else order.unit
    decimals = decimals_for([difference.estimate.mean for difference in differences.values()], order.unit)
    entries = [
        _Entry(
            policy,
            policies.index(policy),
            difference.estimate,
            difference.values,
            f"{signed(difference.estimate.mean, decimals)} "
            f"± {half_width(difference.estimate, decimals)} {unit}".rstrip(),
        )
        for policy, difference in differences.items()
    ]
    axis = with_unit(f"{order.title}, difference to {order.policies[0]}", f"({unit})" if unit else "")
    return _interval_chart(entries, axis, around=0.0)


@dataclass(frozen=True)
class _Entry:
    """A line of an interval chart."""

    name: str
    place: int
    estimate: Estimate
    dots: Sequence[float]
    label: str

    def values(self) -> list[float]:
        """All that must fit into the chart."""
        figures = (self.estimate.low, self.estimate.mean, self.estimate.high)
        return [*self.dots, *(value for value in figures if value is not None)]


def _interval_chart(entries: Sequence[_Entry], axis: str, around: float | None = None) -> str:
    """Lines with dots and intervals; `around` is a value worth a line of its own."""
    height = 34 * len(entries)
    values = [value for entry in entries for value in entry.values()]
    values += [] if around is None else [around]
    frame = Frame(176, 470, 6, 6 + height, padded(min(values), max(values)), (0.0, 1.0))
    rows = "".join(
        _interval_row(entry, frame.top + 34 * line + 17, frame) for line, entry in enumerate(entries)
    )
    middle = (frame.left + frame.right) / 2
    around_line = "" if around is None else _upright(frame, around)
    return (
        f'<svg class="chart" viewBox="0 0 640 {height + 54}" role="img" aria-label="{escape(axis)}">'
        f"{bottom_ticks(frame, full_height=True)}{around_line}{rows}"
        f'<text class="axis" x="{middle}" y="{height + 46}" text-anchor="middle">{escape(axis)}</text></svg>'
    )


def _upright(frame: Frame, value: float) -> str:
    x = frame.x(value)
    return f'<line class="around" x1="{x:.1f}" x2="{x:.1f}" y1="{frame.top}" y2="{frame.bottom}"/>'


def _interval_row(entry: _Entry, y: float, frame: Frame) -> str:
    estimate = entry.estimate
    whisker = ""
    if estimate.low is not None and estimate.high is not None:
        left, right = frame.x(estimate.low), frame.x(estimate.high)
        ends = f"M{left:.1f} {y - 5}v10M{right:.1f} {y - 5}v10"
        whisker = f'<path class="whisker" d="{ends}M{left:.1f} {y}H{right:.1f}"/>'
    dots = "".join(f'<circle class="seed" cx="{frame.x(value):.1f}" cy="{y}" r="3"/>' for value in entry.dots)
    name = entry.name if len(entry.name) <= _LONGEST_NAME else f"{entry.name[: _LONGEST_NAME - 1]}…"
    return (
        f'<g class="{policy_class(entry.place)}"><title>{escape(entry.name)}</title>'
        f'<line class="grid" x1="{frame.left}" x2="{frame.right}" y1="{y}" y2="{y}"/>'
        f'<text class="name" x="{frame.left - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
        f'{dots}{whisker}<circle class="mean" cx="{frame.x(estimate.mean):.1f}" cy="{y}" r="5.5"/>'
        f'<text class="value" x="{frame.right + 12}" y="{y + 4}">{escape(entry.label)}</text></g>'
    )


def padded(low: float, high: float) -> tuple[float, float]:
    """A range with a margin."""
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _share(value: float, whole: tuple[float, float]) -> float:
    low, high = whole
    return (value - low) / (high - low) if high > low else 0.5


def _path(frame: Frame, places: Iterable[float], values: Iterable[float]) -> str:
    parts: list[str] = []
    drawing = False
    for place, value in zip(places, values, strict=True):
        if math.isnan(value):
            drawing = False
            continue
        parts.append(f"{'L' if drawing else 'M'}{frame.x(place):.1f} {frame.y(value):.1f}")
        drawing = True
    return "".join(parts)


def horizontal_grid(frame: Frame) -> str:
    """Lines across at round numbers."""
    marks = ticks(*frame.y_range, about=5)
    decimals = _tick_decimals(marks)
    return "".join(
        f'<line class="grid" x1="{frame.left}" x2="{frame.right}" y1="{frame.y(mark):.1f}" '
        f'y2="{frame.y(mark):.1f}"/><text class="tick" x="{frame.left - 8}" y="{frame.y(mark) + 4:.1f}" '
        f'text-anchor="end">{number(mark, decimals)}</text>'
        for mark in marks
    )


def bottom_ticks(frame: Frame, *, full_height: bool = False) -> str:
    """Round numbers along the bottom."""
    marks = ticks(*frame.x_range, about=4 if full_height else 6)
    decimals = _tick_decimals(marks)
    top = frame.top if full_height else frame.bottom
    return "".join(
        f'<line class="grid" x1="{frame.x(mark):.1f}" x2="{frame.x(mark):.1f}" y1="{top}" '
        f'y2="{frame.bottom + 5}"/><text class="tick" x="{frame.x(mark):.1f}" y="{frame.bottom + 20}" '
        f'text-anchor="middle">{number(mark, decimals)}</text>'
        for mark in marks
    )


def _tick_decimals(marks: Sequence[float]) -> int:
    step = marks[1] - marks[0] if len(marks) > 1 else abs(marks[0])
    for decimals in range(7):
        if abs(round(step, decimals) - step) <= 1e-9 * max(step, 1e-300):
            return decimals
    return 7
