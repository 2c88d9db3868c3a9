"""What the report draws of worlds that name a trade-off and a timeline."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proreus.compare.report.timeline import timelines
from proreus.compare.report.trade_off import Point, frontier, points_of, trade_off_chart
from proreus.model.estimate import Estimate
from proreus.model.measure import Measure
from tests.compare.compare_cases import made, scaled

HOURS, SHARE = Measure("hours", "h", "lower"), Measure("share", "%", "higher")
TWO = {"static": [(8.0, 99.0), (8.0, 99.0)], "a <b>": [(4.0, 80.0), (6.0, 90.0)], "bad": [(9.0, 50.0)] * 2}


def point(name: str, across: float, up: float) -> Point:
    return Point(name, Estimate(across, None, None, 1), Estimate(up, None, None, 1))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12),
    st.sampled_from(["higher", "lower"]),
    st.sampled_from(["higher", "lower"]),
)
def test_the_frontier_is_whom_nobody_beats(values: list[tuple[int, int]], across: str, up: str) -> None:
    points = [point(str(place), float(x), float(y)) for place, (x, y) in enumerate(values)]
    front = frontier(points, Measure("x", "", across), Measure("y", "", up))
    x_sign, y_sign = (1 if way == "higher" else -1 for way in (across, up))

    def beats(one: Point, other: Point) -> bool:
        x = x_sign * (one.across.mean - other.across.mean)
        y = y_sign * (one.up.mean - other.up.mean)
        return x >= 0 and y >= 0 and x + y > 0

    best = [candidate for candidate in points if not any(beats(other, candidate) for other in points)]
    key = {(candidate.across.mean, candidate.up.mean) for candidate in best}
    assert {(candidate.across.mean, candidate.up.mean) for candidate in front} == key and len(front) == len(
        key
    )


def test_every_policy_is_a_point_with_its_intervals() -> None:
    comparison = scaled(TWO)
    (scenario,) = comparison.request.scenarios
    assert [point.policy for point in points_of(comparison, scenario)] == list(TWO)
    chart = trade_off_chart(comparison, scenario)
    assert chart.count('class="mean"') == 3 and "On the line: a &lt;b&gt; and static." in chart
    assert "a <b>" not in chart
    places = [(float(x), float(y)) for x, y in re.findall(r'class="mean" cx="([\d.]+)" cy="([\d.]+)"', chart)]
    (static, a, bad) = places
    assert a[0] < static[0] < bad[0], "fewer GPU-hours stand further left"
    assert static[1] < a[1] < bad[1], "more requests served as promised stand higher"
    (stairs,) = re.findall(r'class="frontier" d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)"', chart)
    assert tuple(map(float, stairs)) == (*a, *static)


def test_worlds_without_a_trade_off_and_single_policies_have_none() -> None:
    plain = made({"kube": {"jct_mean": [1.0, 2.0]}, "fgd": {"jct_mean": [1.0, 3.0]}})
    assert trade_off_chart(plain, plain.request.scenarios[0]) == ""
    assert timelines(plain, plain.request.scenarios[0], ["kube", "fgd"]) == ""
    alone = scaled({"static": [(8.0, 99.0)]})
    assert trade_off_chart(alone, alone.request.scenarios[0]) == ""


def test_an_interval_without_end_leaves_the_means_apart() -> None:
    wild = scaled({"one": [(1.0, 50.0), (9.0, 99.0)], "two": [(6.0, 60.0), (6.0, 61.0)]})
    chart = trade_off_chart(wild, wild.request.scenarios[0])
    places = [float(x) for x in re.findall(r'class="mean" cx="([\d.]+)"', chart)]
    assert abs(places[0] - places[1]) > 100.0


def test_strips_stand_on_each_other_and_show_what_there_is() -> None:
    comparison = scaled(TWO)
    drawn = timelines(comparison, comparison.request.scenarios[0], list(TWO))
    assert drawn.count("<figure") == 3 and "a &lt;b&gt;" in drawn and "a <b>" not in drawn
    assert drawn.count('class="strip"') == 9, "load, instances, missed"
    assert "prompt, starting" in drawn and "mixed" not in drawn, "nobody has a mixed pool"
    (first, *_) = re.findall(r'class="area p1" d="([^"]*)"', drawn)
    heights = [float(y) for y in re.findall(r"V([\d.]+)", first)]
    (floor,) = {max(heights)}
    top = min(heights)
    assert np.isclose((floor - top) / 74.0, 0.6), "60 % missed is 60 % of a strip"
