"""The numbers that the report's script needs, as JSON that may stand inside a page. `report` calls this."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable

from proreus.compare.comparison import Comparison
from proreus.compare.curves import Chart, charts_of
from proreus.compare.report.charts import curve_frame
from proreus.compare.report.player import player_data, player_element
from proreus.contract.heatmap import HeatMap


def chart_element(place: int, chart: Chart) -> str:
    """The id of a chart of the scenario at that place of the request."""
    return f"chart-{place}-{chart.key}"


def heat_element(scenario: int, policy: int) -> str:
    """The id of a heat map."""
    return f"heat-{scenario}-{policy}"


def report_data(comparison: Comparison) -> str:
    """Every chart, heat map and replay; safe to put between script tags."""
    policies = comparison.request.policies
    charts: dict[str, object] = {}
    heats: dict[str, object] = {}
    replays: dict[str, dict[int, object]] = {}
    for place, scenario in enumerate(comparison.request.scenarios):
        for chart in charts_of(comparison, scenario):
            charts[chart_element(place, chart)] = _chart(chart, policies)
        for result in comparison.results_for(scenario):
            if result.picture is not None and result.picture.heat.cells.size:
                element = heat_element(place, policies.index(result.policy))
                heats[element] = _heat(result.picture.heat)
            if result.picture is not None and result.picture.replay is not None:
                of_scenario = replays.setdefault(player_element(place), {})
                of_scenario[policies.index(result.policy)] = player_data(result.picture.replay)
    content = {
        "policies": policies,
        "place": comparison.world.words.place,
        "charts": charts,
        "heats": heats,
        "replays": replays,
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    # "<" would let a name end the script element.
    return text.replace("<", "\\u003c")


def _chart(chart: Chart, policies: tuple[str, ...]) -> dict[str, object]:
    frame = curve_frame(chart)
    return {
        "unit": chart.unit,
        "axis": chart.axis.unit,
        "left": frame.left,
        "right": frame.right,
        "x": _rounded(chart.axis.values),
        "series": [_rounded(chart.series[policy]) if policy in chart.series else None for policy in policies],
    }


def _heat(heat: HeatMap) -> dict[str, object]:
    rows, moments = heat.cells.shape
    return {
        "rows": rows,
        "moments": moments,
        "nodes": heat.nodes,
        "nodesPerRow": heat.nodes_per_row,
        "times": _rounded(heat.times - heat.times[0]),
        "cells": base64.b64encode(heat.cells.tobytes()).decode("ascii"),
    }


def _rounded(values: Iterable[float]) -> list[float | None]:
    """Five significant digits: more cannot be seen and would only take room."""
    return [None if math.isnan(value) else float(f"{value:.5g}") for value in values]
