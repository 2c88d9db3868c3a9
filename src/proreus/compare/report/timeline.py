"""Timelines of the report: the strips that a world names, for every policy, to one scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

import numpy as np

from proreus.compare.comparison import Comparison
from proreus.compare.curves import time_axis
from proreus.compare.number_format import number, with_unit
from proreus.compare.report.charts import COLOURS, Frame, bottom_ticks, ticks
from proreus.contract.scenario import Scenario
from proreus.contract.timeline import Layer, Strip
from proreus.contract.world import Recording
from proreus.kernels.arrays import F64

_BINS = 200
_LEFT, _RIGHT, _WIDTH = 54.0, 628.0, 640.0
_TITLE, _STRIP, _GAP, _FOOT = 20.0, 74.0, 10.0, 44.0

Heights = dict[str, F64]
"""Key of a series -> its value in each bin."""


def timelines(comparison: Comparison, scenario: Scenario, order: Sequence[str]) -> str:
    """The section of a scenario; "": the world names no strips, or no run has their series."""
    recordings = {
        result.policy: result.picture.recording
        for result in comparison.results_for(scenario)
        if result.picture is not None and result.picture.recording.time.size > 1
    }
    strips = _shown(comparison.world.timeline, recordings)
    if not strips:
        return ""
    ends = max(float(recording.time[-1] - recording.time[0]) for recording in recordings.values())
    heights = {policy: _binned(recording, strips, ends) for policy, recording in recordings.items()}
    tops = [_top(strip, heights.values()) for strip in strips]
    policies = comparison.request.policies
    shown = [policy for policy in order if policy in heights]
    buttons = ['<button type="button" aria-pressed="true" data-policy="all">all</button>'] + [
        f'<button type="button" aria-pressed="false" data-policy="{policies.index(policy)}">'
        f"{escape(policy)}</button>"
        for policy in shown
    ]
    figures = "".join(
        f'<figure data-policy="{policies.index(policy)}"><figcaption>{escape(policy)}</figcaption>'
        f"{timeline_chart(policy, strips, (heights[policy], tops), ends)}</figure>"
        for policy in shown
    )
    return (
        f"<h3>Timeline <small>seed {comparison.request.seeds[0]}</small></h3>"
        f'<p class="note keys">{_keys(strips)}</p>'
        f'<div class="heats timelines"><div class="legend" role="group" aria-label="Choose a policy">'
        f'{"".join(buttons)}</div><div class="maps">{figures}</div></div>'
    )


def _shown(strips: Sequence[Strip], recordings: Mapping[str, Recording]) -> list[Strip]:
    """Without the layers that no run has, or that are zero throughout; a strip has at least one."""
    shown = []
    for strip in strips:
        layers = tuple(
            layer
            for layer in strip.layers
            if any(np.any(recording.series.get(layer.key, 0.0) != 0.0) for recording in recordings.values())
        )
        if layers:
            shown.append(Strip(strip.title, strip.unit, layers))
    return shown


def _binned(recording: Recording, strips: Sequence[Strip], ends: float) -> Heights:
    """Means over equal stretches of time, so that nothing short is lost between two points of a drawing."""
    time = recording.time - recording.time[0]
    bins = np.minimum((time / max(ends, 1e-9) * _BINS).astype(np.int64), _BINS - 1)
    count = np.bincount(bins, minlength=_BINS)
    last = np.maximum.accumulate(np.where(count > 0, np.arange(_BINS), 0))
    heights: Heights = {}
    for layer in (layer for strip in strips for layer in strip.layers):
        values = recording.series.get(layer.key, np.zeros(time.size))
        means = np.bincount(bins, weights=values, minlength=_BINS) / np.maximum(count, 1)
        held = means[last]
        held[np.arange(_BINS) > bins[-1]] = 0.0
        heights[layer.key] = held
    return heights


def _top(strip: Strip, heights: Collection[Heights]) -> float:
    """What the strip has room for, over all policies; shares are shown whole."""
    if strip.unit == "%":
        return 100.0
    return 1.05 * max(
        float(np.sum([run_heights[layer.key] for layer in strip.layers], axis=0).max())
        for run_heights in heights
    )


def timeline_chart(
    policy: str, strips: Sequence[Strip], heights: tuple[Heights, Sequence[float]], seconds: float
) -> str:
    """All strips of one run."""
    by_layer, tops = heights
    axis, _, unit_seconds = time_axis(seconds)
    tall = len(strips) * (_TITLE + _STRIP + _GAP) + _FOOT
    drawn, top = [], 0.0
    frame = Frame(_LEFT, _RIGHT, 0.0, 0.0, (0.0, seconds / unit_seconds), (0.0, 1.0))
    for strip, most in zip(strips, tops, strict=True):
        begin = top + _TITLE
        frame = Frame(_LEFT, _RIGHT, begin, begin + _STRIP, frame.x_range, (0.0, most))
        drawn.append(_strip(frame, strip, by_layer))
        top = begin + _STRIP + _GAP
    middle = (_LEFT + _RIGHT) / 2
    label = f"{', '.join(strip.title for strip in strips)} over time under {policy}"
    return (
        f'<svg class="chart timeline" viewBox="0 0 {_WIDTH:g} {tall:g}" role="img" '
        f'aria-label="{escape(label)}">'
        f"{''.join(drawn)}{bottom_ticks(frame)}"
        f'<text class="axis" x="{middle:g}" y="{tall - 6:g}" text-anchor="middle">{escape(axis)}</text></svg>'
    )


def _strip(frame: Frame, strip: Strip, heights: Heights) -> str:
    marks = ticks(*frame.y_range, about=2)
    whole = all(float(mark).is_integer() for mark in marks)
    grid = "".join(
        f'<line class="grid" x1="{frame.left:g}" x2="{frame.right:g}" y1="{frame.y(mark):.1f}" '
        f'y2="{frame.y(mark):.1f}"/><text class="tick" x="{frame.left - 8:g}" y="{frame.y(mark) + 4:.1f}" '
        f'text-anchor="end">{number(mark, 0 if whole else 1)}</text>'
        for mark in marks
    )
    floor, areas = np.zeros(_BINS), []
    for layer in strip.layers:
        roof = floor + heights[layer.key]
        areas.append(
            f'<path class="{_style(layer)}" d="{_area(frame, floor, roof)}">'
            f"<title>{escape(layer.title)}</title></path>"
        )
        floor = roof
    title = with_unit(strip.title, f"({strip.unit})" if strip.unit else "")
    head = f'<text class="strip" x="{frame.left:g}" y="{frame.top - 6:g}">{escape(title)}</text>'
    return f"{head}{grid}{''.join(areas)}"


def _style(layer: Layer) -> str:
    return f"area p{layer.colour % COLOURS}{' faint' if layer.faint else ''}"


def _area(frame: Frame, floor: F64, roof: F64) -> str:
    """Between two lines of steps; steps of equal height are one."""
    if np.array_equal(floor, roof):
        return ""
    edges = np.linspace(frame.left, frame.right, _BINS + 1)
    there = _steps(frame, edges, roof, range(_BINS))
    back = _steps(frame, edges, floor, range(_BINS - 1, -1, -1))
    return f"M{edges[0]:.1f} {frame.y(float(floor[0])):.1f}{there}{back}Z"


def _steps(frame: Frame, edges: F64, values: F64, way: range) -> str:
    ahead = 1 if way.step > 0 else 0
    parts = []
    for position, place in enumerate(way):
        following = way[position + 1] if position + 1 < len(way) else None
        if position == 0:
            parts.append(f"V{frame.y(float(values[place])):.1f}")
        if following is None or values[following] != values[place]:
            parts.append(f"H{edges[place + ahead]:.1f}")
            if following is not None:
                parts.append(f"V{frame.y(float(values[following])):.1f}")
    return "".join(parts)


def _keys(strips: Sequence[Strip]) -> str:
    """Which colour is what; a strip of one series says it in its title."""
    marks = "".join(
        f'<i class="{_style(layer)}"></i>{escape(layer.title)}'
        for strip in strips
        if len(strip.layers) > 1
        for layer in strip.layers
    )
    return f"What came, what was there and what was missed; the same scale for every policy.{marks}"
