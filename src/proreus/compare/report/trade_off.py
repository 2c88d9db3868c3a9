"""Every policy between what it spends and what is had for it, with intervals both ways and the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from proreus.compare.comparison import Comparison
from proreus.compare.number_format import decimals_for, listing, plus_minus, with_unit
from proreus.compare.report.charts import (
    Frame,
    bottom_ticks,
    horizontal_grid,
    padded,
    policy_class,
)
from proreus.contract.scenario import Scenario
from proreus.model.estimate import Estimate
from proreus.model.measure import Measure

_WIDTH, _HEIGHT = 640.0, 384.0
_LETTER, _LINE = 7.8, 15.0
"""About the size of a letter of a name, in units of the drawing."""
_LONGEST_NAME = 18


@dataclass(frozen=True)
class Point:
    """A policy by two measures."""

    policy: str
    across: Estimate
    up: Estimate


def points_of(comparison: Comparison, scenario: Scenario) -> list[Point]:
    """In the order of the request: policies that have both measures."""
    trade = comparison.world.trade_off
    if trade is None:
        return []
    across, up = (
        {row.policy: row.estimate for row in comparison.rows_for(scenario, name)}
        for name in (trade.across, trade.up)
    )
    both = [name for name in comparison.request.policies if name in across and name in up]
    return [Point(name, across[name], up[name]) for name in both]


def frontier(points: Sequence[Point], across: Measure, up: Measure) -> list[Point]:
    """Those that no other one beats in one measure without losing in the other, by their means."""
    sign_across = 1.0 if across.better == "lower" else -1.0
    sign_up = -1.0 if up.better == "higher" else 1.0
    front: list[Point] = []
    for point in sorted(
        points, key=lambda candidate: (sign_across * candidate.across.mean, sign_up * candidate.up.mean)
    ):
        if not front or sign_up * point.up.mean < sign_up * front[-1].up.mean:
            front.append(point)
    return front


def trade_off_chart(comparison: Comparison, scenario: Scenario) -> str:
    """The figure of a scenario; "": the world names no such measures, or there is nothing to compare."""
    trade, points = comparison.world.trade_off, points_of(comparison, scenario)
    if trade is None or len(points) < 2:
        return ""
    across, up = (comparison.world.measures[name] for name in (trade.across, trade.up))
    best = frontier(points, across, up)
    names = listing([point.policy for point in best])
    said = (
        f"On the line: {names}. Whoever is off it is beaten in one measure by a policy that is as good "
        "in the other, by their means; crosses are 95 % intervals."
    )
    title = f"{across.in_words} against {up.in_words[0].lower()}{up.in_words[1:]}"
    return (
        f'<figure class="trade"><figcaption>{escape(title)}</figcaption>'
        f"{_drawing(points, best, (across, up), comparison.request.policies)}"
        f'<p class="note">{escape(said)}</p></figure>'
    )


def _drawing(
    points: Sequence[Point], best: Sequence[Point], measures: tuple[Measure, Measure], policies: Sequence[str]
) -> str:
    across, up = measures
    frame = Frame(
        64.0,
        _WIDTH - 14.0,
        14.0,
        _HEIGHT - 56.0,
        _range(point.across for point in points),
        _within(_range(point.up for point in points), up.unit),
    )
    crosses = "".join(_cross(frame, point, policies.index(point.policy), measures) for point in points)
    bottom = f"{with_unit(across.in_words, f'({across.unit})')}, {_way(across)}"
    side = f"{with_unit(up.in_words, f'({up.unit})')}, {_way(up)}"
    middle, height = (frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(f"{bottom} against {side}, one point per policy")}">'
        f"{horizontal_grid(frame)}{bottom_ticks(frame)}"
        f'<text class="axis" x="{middle:g}" y="{_HEIGHT - 8:g}" text-anchor="middle">{escape(bottom)}</text>'
        f'<text class="axis" transform="translate(14 {height:g}) rotate(-90)" text-anchor="middle">'
        f'{escape(side)}</text><path class="frontier" d="{_stairs(frame, best)}"/>'
        f"{crosses}{_names(frame, points)}</svg>"
    )


def _way(measure: Measure) -> str:
    return "more is better →" if measure.better == "higher" else "← less is better"


def _range(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """All means, and intervals as far as they leave the means apart: those of few seeds may be endless."""
    listed = list(estimates)
    low, high = min(estimate.mean for estimate in listed), max(estimate.mean for estimate in listed)
    reach = 0.5 * (high - low) or abs(high) or 1.0
    ends = [end for estimate in listed for end in (estimate.low, estimate.high) if end is not None]
    bottom, top = min([low, *ends]), max([high, *ends])
    bottom = max(bottom, low - reach, 0.0) if low >= 0.0 else max(bottom, low - reach)
    return padded(bottom, min(top, high + reach))


def _within(bounds: tuple[float, float], unit: str) -> tuple[float, float]:
    """Shares do not go beyond all and nothing by much, whatever a symmetric interval says."""
    margin = 0.05 * (min(bounds[1], 100.0) - max(bounds[0], 0.0))
    return (max(bounds[0], -margin), min(bounds[1], 100.0 + margin)) if unit == "%" else bounds


def _held(frame: Frame, x: float, y: float) -> tuple[float, float]:
    return min(max(x, frame.left), frame.right), min(max(y, frame.top), frame.bottom)


def _stairs(frame: Frame, best: Sequence[Point]) -> str:
    """From the one that spends least to the one that has most: across, then up."""
    first, *others = best
    parts = [f"M{frame.x(first.across.mean):.1f} {frame.y(first.up.mean):.1f}"]
    parts += [f"H{frame.x(point.across.mean):.1f}V{frame.y(point.up.mean):.1f}" for point in others]
    return "".join(parts)


def _cross(frame: Frame, point: Point, place: int, measures: tuple[Measure, Measure]) -> str:
    x, y = frame.x(point.across.mean), frame.y(point.up.mean)
    lines = ""
    if point.across.low is not None and point.across.high is not None:
        left, right = (_held(frame, frame.x(end), y)[0] for end in (point.across.low, point.across.high))
        lines += f"M{left:.1f} {y:.1f}H{right:.1f}"
    if point.up.low is not None and point.up.high is not None:
        low, high = (_held(frame, x, frame.y(end))[1] for end in (point.up.low, point.up.high))
        lines += f"M{x:.1f} {low:.1f}V{high:.1f}"
    figures = "; ".join(
        f"{measure.in_short} {_figure(estimate, measure.unit)}"
        for measure, estimate in zip(measures, (point.across, point.up), strict=True)
    )
    return (
        f'<g class="{policy_class(place)}"><title>{escape(f"{point.policy}: {figures}")}</title>'
        f'<path class="whisker" d="{lines}"/><circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="6"/></g>'
    )


def _figure(estimate: Estimate, unit: str) -> str:
    return with_unit(plus_minus(estimate, decimals_for([estimate.mean], unit)), unit)


def _names(frame: Frame, points: Sequence[Point]) -> str:
    """Beside each point where there is room for it: right, left, above or below."""
    taken = [_around(frame.x(point.across.mean), frame.y(point.up.mean)) for point in points]
    written = []
    for point in points:
        name = point.policy
        if len(name) > _LONGEST_NAME:
            name = f"{name[: _LONGEST_NAME - 1]}…"
        x, y, wide = frame.x(point.across.mean), frame.y(point.up.mean), _LETTER * len(name)
        places = [
            (x + 10.0, y - 5.0),
            (x - 10.0 - wide, y - 5.0),
            (x + 10.0, y + 16.0),
            (x - 10.0 - wide, y + 16.0),
            (x - wide / 2, y - 14.0),
            (x - wide / 2, y + 26.0),
            (x + 10.0, y - 22.0),
            (x + 10.0, y + 34.0),
        ]
        boxes = [(left, base - 12.0, left + wide, base + 3.0) for left, base in places]
        inside = [_inside(frame, box) for box in boxes]
        free = [not any(_meet(box, other) for other in taken) for box in boxes]
        at = next((k for k in range(len(boxes)) if inside[k] and free[k]), None)
        at = next((k for k in range(len(boxes)) if inside[k]), 0) if at is None else at
        taken.append(boxes[at])
        written.append(
            f'<text class="name" x="{places[at][0]:.1f}" y="{places[at][1]:.1f}">{escape(name)}</text>'
        )
    return "".join(written)


Box = tuple[float, float, float, float]


def _around(x: float, y: float) -> Box:
    return x - 6.0, y - 6.0, x + 6.0, y + 6.0


def _inside(frame: Frame, box: Box) -> bool:
    return box[0] >= frame.left and box[2] <= frame.right + 10.0 and box[1] >= 0.0 and box[3] <= frame.bottom


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
