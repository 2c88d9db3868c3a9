"""The curves of a scenario as charts: every policy on one grid, whatever moments its run was sampled at.

`plots` and `report` draw the same charts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proreus.compare.comparison import Comparison
from proreus.contract.scenario import Scenario
from proreus.contract.world import Recording, World
from proreus.kernels.arrays import F64

_POINTS = 240
# Percentage points between policies from which on a chart shows them.
_APART = 0.5
_TIME_UNITS = (
    ("days", 86_400.0, 3.0),
    ("hours", 3_600.0, 3.0),
    ("minutes", 60.0, 5.0),
    ("seconds", 1.0, 0.0),
)


@dataclass(frozen=True)
class Axis:
    """What runs along the bottom."""

    title: str
    unit: str
    values: F64


@dataclass(frozen=True)
class Chart:
    """One quantity of all policies."""

    key: str
    """Names the file or the element."""
    title: str
    unit: str
    axis: Axis
    series: dict[str, F64]
    """Policy -> value at each place of the axis; NaN where the run is over."""
    file: str = ""
    """The name of the plot's file; "": in the report only."""
    note: str = ""
    """What the reader should know about the part that is shown."""


_MOST_CHARTS = 4


def charts_of(comparison: Comparison, scenario: Scenario) -> list[Chart]:
    """The charts of a scenario's first seed: the first four quantities that are not zero throughout."""
    recordings = {
        result.policy: result.picture.recording
        for result in comparison.results_for(scenario)
        if result.picture is not None and result.picture.recording.time.size
    }
    if not recordings:
        return []
    places = {policy: _places(recording) for policy, recording in recordings.items()}
    grid = np.linspace(
        min(float(positions[0]) for positions in places.values()),
        max(float(positions[-1]) for positions in places.values()),
        _POINTS,
    )
    axis = _axis(grid, comparison.world, next(iter(recordings.values())))
    charts = []
    for quantity in comparison.world.quantities:
        series = {
            policy: _held(places[policy], recording.series[quantity.key], grid)
            for policy, recording in recordings.items()
            if quantity.key in recording.series
        }
        if any(np.nanmax(values, initial=0.0) > 0 for values in series.values()):
            chart = Chart(quantity.key, quantity.title, quantity.unit, axis, series, quantity.file)
            charts.append(
                _from_where_they_part(chart) if axis.unit == "%" and quantity.unit == "%" else chart
            )
    return charts[:_MOST_CHARTS]


def _from_where_they_part(chart: Chart) -> Chart:
    """Without the part in which every policy still places everything: lines on one another tell nothing."""
    if len(chart.series) < 2:
        return chart
    values = np.array(list(chart.series.values()))
    apart = np.flatnonzero(np.ptp(np.nan_to_num(values), axis=0) > _APART)
    start = max(int(apart[0]) - _POINTS // 20, 0) if apart.size else 0
    if start < _POINTS // 10:
        return chart
    places = chart.axis.values
    return replace(
        chart,
        axis=replace(chart.axis, values=places[start:]),
        series={policy: series[start:] for policy, series in chart.series.items()},
        note=f"Before {places[start]:.0f} % all policies are within {_APART} points of each other.",
    )


def _places(recording: Recording) -> F64:
    return recording.time - recording.time[0] if recording.load is None else recording.load


def _axis(grid: F64, world: World, recording: Recording) -> Axis:
    if recording.load is not None:
        return Axis(world.words.load_title, "%", grid)
    title, unit, seconds = time_axis(float(grid[-1]))
    return Axis(title, unit, grid / seconds)


def time_axis(span: float) -> tuple[str, str, float]:
    """(title, unit, seconds of the unit) of an axis over so many seconds."""
    unit, seconds = next(
        ((name, size) for name, size, least in _TIME_UNITS if span >= least * size), _TIME_UNITS[-1][:2]
    )
    return f"Time, {unit}", unit, seconds


def _held(places: F64, values: F64, grid: F64) -> F64:
    """The last sample before each place of the grid; NaN before the first and after the last."""
    last = np.searchsorted(places, grid, side="right") - 1
    held = values[np.maximum(last, 0)].astype(np.float64)
    held[(last < 0) | (grid > places[-1])] = np.nan
    return held
