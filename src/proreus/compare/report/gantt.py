"""Gantt charts of the report: one row a machine, one bar for each thing that ran, one colour a group."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from proreus.compare.report.charts import ticks
from proreus.contract.gantt import MOST_BARS, Gantt

_LEFT, _WIDTH, _RIGHT = 150.0, 640.0, 12.0
_ROW = 13.0
_GOLDEN = 137.508
"""Degrees between the hues of two groups that follow each other: neighbours differ."""


def gantt_charts(gantts: Mapping[str, Gantt], seed: int) -> str:
    """The charts of one scenario, policy -> its bars; "": there are none."""
    if not gantts:
        return ""
    figures = "".join(
        f"<figure><figcaption>{escape(policy)}</figcaption>{gantt_chart(gantt)}</figure>"
        for policy, gantt in gantts.items()
    )
    first = next(iter(gantts.values()))
    cut = (
        f" The first {MOST_BARS:,} bars are drawn."
        if any(gantt.left_out for gantt in gantts.values())
        else ""
    )
    return (
        f"<h3>What ran where <small>seed {seed}</small></h3>"
        f'<p class="note">{escape(first.note)}{cut}</p><div class="charts">{figures}</div>'
    )


def gantt_chart(gantt: Gantt) -> str:
    """The bars as one drawing; a group is one path, so that thousands of bars stay small."""
    shown = slice(0, MOST_BARS)
    row, group, begin, end = (column[shown] for column in (gantt.row, gantt.group, gantt.begin, gantt.end))
    low = float(begin.min()) if begin.size else 0.0
    high = max(float(end.max()) if end.size else 1.0, low + 1e-9)
    scale = (_WIDTH - _LEFT - _RIGHT) / (high - low)
    bottom = _ROW * len(gantt.rows)
    names = "".join(
        f'<text class="tick" x="{_LEFT - 8:g}" y="{_ROW * at + 10:g}" text-anchor="end">{escape(name)}</text>'
        for at, name in enumerate(gantt.rows)
    )
    paths = []
    for number in np.unique(group).tolist():
        mine = np.flatnonzero(group == number)
        bars = "".join(
            f"M{_LEFT + (begin[bar] - low) * scale:.1f} {_ROW * row[bar] + 1:.1f}"
            f"h{max((end[bar] - begin[bar]) * scale, 0.3):.1f}v{_ROW - 2:g}"
            f"h-{max((end[bar] - begin[bar]) * scale, 0.3):.1f}z"
            for bar in mine.tolist()
        )
        hue = number * _GOLDEN % 360.0
        paths.append(
            f'<path d="{bars}" style="fill:hsl({hue:.0f} 55% 52%)">'
            f"<title>{escape(gantt.groups[number])}</title></path>"
        )
    marks = "".join(
        f'<text class="tick" x="{_LEFT + mark * scale:.1f}" y="{bottom + 16:g}" text-anchor="middle">'
        f"{mark:,.0f}</text>"
        for mark in ticks(0.0, high - low)
        if mark <= high - low
    )
    label = f"{row.size:,} bars on {len(gantt.rows)} rows over {high - low:,.0f} s"
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH:g} {bottom + 40:g}" role="img" '
        f'aria-label="{escape(label)}">{names}{"".join(paths)}{marks}'
        f'<text class="axis" x="{(_LEFT + _WIDTH) / 2:g}" y="{bottom + 34:g}" text-anchor="middle">'
        "seconds</text></svg>"
    )
