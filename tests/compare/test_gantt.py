"""Gantt charts of the report."""

from __future__ import annotations

import numpy as np

from proreus.compare.report.gantt import gantt_chart, gantt_charts
from proreus.contract.gantt import MOST_BARS, Gantt


def bars(count: int = 3) -> Gantt:
    begin = np.arange(count, dtype=np.float64)
    number = (np.arange(count) % 2).astype(np.int32)
    return Gantt(("m0", "m<1>"), ("a", "b & c"), number, number, begin, begin + 2.0, "a note")


def test_a_group_is_one_path_and_names_are_safe() -> None:
    chart = gantt_chart(bars())
    assert chart.count("<path") == 2 and chart.count("M") == 3
    assert "m&lt;1&gt;" in chart and "b &amp; c" in chart and "m<1>" not in chart
    assert "3 bars on 2 rows over 4 s" in chart


def test_no_more_bars_are_drawn_than_a_page_can_bear() -> None:
    many = bars(MOST_BARS + 5)
    assert many.left_out == 5 and gantt_chart(many).count("z") == MOST_BARS
    assert f"first {MOST_BARS:,} bars" in gantt_charts({"x": many}, 1)
    assert "bars are drawn" not in gantt_charts({"x": bars()}, 1)
    assert gantt_charts({}, 1) == ""


def test_a_run_without_bars_is_drawn_empty() -> None:
    chart = gantt_chart(bars(0))
    assert "<path" not in chart and "0 bars" in chart
