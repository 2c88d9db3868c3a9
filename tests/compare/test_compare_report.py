"""The report is one sound page that asks nothing of the network, and its data are those of the runs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from proreus.compare.comparison import CompareRequest, Comparison, compare
from proreus.compare.curves import charts_of
from proreus.compare.outputs import COMMAND, write_outputs
from proreus.compare.plots import render_plots
from proreus.compare.report.charts import ticks
from proreus.compare.report.page import Circumstances, render_report
from proreus.contract.heatmap import MOST_ROWS, heat_map
from proreus.worlds.pods.scenarios import PodScenario
from tests.compare.compare_cases import Tiny, made, picture

ABOUT = Circumstances(
    "proreus compare pods --x '<b>&'", datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "a <machine>"
)
FIGURES = {
    "fgd": {"gpu_allocation_peak": [95.0, 95.2, 95.1], "failures": [3.0, 4.0, 5.0]},
    "kube": {"gpu_allocation_peak": [93.0, 93.5, 93.1], "failures": [6.0, 7.0, 8.0]},
}
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Reads a page as a browser would and complains about elements that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.words).append(data)

    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.scripts[0]))


def page(comparison: Comparison) -> Page:
    return Page(render_report(comparison, ABOUT))


@pytest.mark.parametrize("drop_failures", [True, False])
@pytest.mark.parametrize("seeds", [1, 3])
def test_the_page_is_balanced_and_ids_are_unique(seeds: int, drop_failures: bool) -> None:
    figures = {
        policy: {name: values[:seeds] for name, values in measures.items()}
        for policy, measures in FIGURES.items()
    }
    parsed = page(made(figures, scenarios=("one", "two"), drop_failures=drop_failures))
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    data = parsed.data()
    assert set(data["charts"]) | set(data["heats"]) | set(data["replays"]) <= set(ids)
    links = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    assert links == ["#in-short", "#scenario-0", "#scenario-1", "#scenario-0", "#scenario-1"]


def test_one_scenario_needs_no_way_to_it() -> None:
    links = [attributes["href"] for tag, attributes in page(made(FIGURES)).tags if tag == "a"]
    assert links == ["#scenario-0"]


def test_nothing_comes_from_outside() -> None:
    text = render_report(made(FIGURES, drop_failures=True), ABOUT)
    assert not re.search(r"https?://|//[a-z]|@import|url\(", re.sub(r"// .*", "", text))
    for tag, attributes in Page(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert "default-src 'none'" in text


def test_names_are_text() -> None:
    evil = "<script>alert(1)</script>"
    tricky = "\"'><!-- & </style> ]]>"
    figures: Mapping[str, Any] = {evil: FIGURES["fgd"], tricky: FIGURES["kube"], "策略-ß": FIGURES["kube"]}
    comparison = made(figures, scenarios=(evil, "</script>"), drop_failures=True)
    parsed = page(comparison)
    assert len(parsed.scripts) == 2
    assert parsed.data()["policies"] == [evil, tricky, "策略-ß"]
    text = "".join(parsed.words)
    assert evil in text and tricky in text and "策略-ß" in text
    assert ABOUT.command in text and ABOUT.machine in text


def test_one_seed_shows_dashes_and_says_so() -> None:
    text = "".join(page(made({"a": {"jct_mean": [1.0]}, "b": {"jct_mean": [2.0]}})).words)
    assert "± —" in text and "one seed, so no intervals" in text and "may be chance" in text


def test_significance_and_intervals_are_shown() -> None:
    text = render_report(made(FIGURES, drop_failures=True), ABOUT)
    assert "the difference is significant at 95 %" in text
    assert 'class="whisker"' in text and 'significant at 95 %">*<' in text


def test_heat_maps_decode() -> None:
    comparison = made(FIGURES, drop_failures=True, nodes=7)
    heats = page(comparison).data()["heats"]
    assert set(heats) == {"heat-0-0", "heat-0-1"}
    for policy, name in enumerate(FIGURES):
        heat = heats[f"heat-0-{policy}"]
        cells = np.frombuffer(base64.b64decode(heat["cells"]), dtype=np.uint8)
        drawn = next(
            trial_result.picture
            for trial_result in comparison.results
            if trial_result.policy == name and trial_result.picture
        )
        assert (cells.reshape(heat["rows"], heat["moments"]) == drawn.heat.cells).all()
        assert len(heat["times"]) == heat["moments"]
        assert (heat["nodes"], heat["nodesPerRow"]) == (7, 1)


def test_every_policy_has_a_replay_and_nothing_plays_by_itself() -> None:
    comparison = made(FIGURES, scenarios=("one", "two"), nodes=7)
    text = render_report(comparison, ABOUT)
    page = Page(text)
    assert {name: set(replay) for name, replay in page.data()["replays"].items()} == {
        "replay-0": {"0", "1"},
        "replay-1": {"0", "1"},
    }
    played = page.data()["replays"]["replay-0"]["1"]
    assert played["moments"][-1] == "<moment 8>" and played["boxes"][3] == "<i>3</i>"
    assert played["moves"][3] == [[0, 3, 4]] and played["items"] == ["</script><b>"]
    players = [attributes for tag, attributes in page.tags if attributes.get("class") == "replay"]
    assert len(players) == 2 and all("hidden" in attributes for attributes in players)
    assert text.count("The replay needs JavaScript") == 2
    script = page.scripts[1]
    assert "innerHTML" not in script and "insertAdjacentHTML" not in script


def test_replays_add_little_to_the_page() -> None:
    def size(with_replays: bool) -> int:
        figures = {f"policy-{place}": FIGURES["fgd"] for place in range(4)}
        comparison = made(figures, scenarios=("one", "two"), nodes=1_250)
        if not with_replays:
            results = tuple(
                replace(
                    trial_result, picture=trial_result.picture and replace(trial_result.picture, replay=None)
                )
                for trial_result in comparison.results
            )
            comparison = replace(comparison, results=results)
        return len(render_report(comparison, ABOUT).encode())

    assert size(True) - size(False) < 600_000  # nodes of which each changes in each frame: the worst case


def test_the_page_stays_small() -> None:
    figures = {f"policy-{place}": FIGURES["fgd"] for place in range(6)}
    assert len(render_report(made(figures, drop_failures=True, nodes=1_213), ABOUT).encode()) < 3_000_000
    assert len(render_report(made(figures, drop_failures=True, nodes=5_000), ABOUT).encode()) < 3_000_000


def test_heat_map_orders_nodes_by_their_end_and_keeps_shares() -> None:
    shares = np.array([[0.0, 1.0, 0.0], [0.25, 0.75, 1.0]], dtype=np.float32)
    heat = heat_map(shares, np.array([0.0, 1.0]))
    assert heat.cells.tolist() == [[0, 255], [255, 191], [0, 64]]
    assert heat.by_end


def test_heat_map_of_an_emptied_cluster_is_ordered_by_the_mean() -> None:
    shares = np.array([[0.5, 1.0], [0.125, 0.0]], dtype=np.float32)
    heat = heat_map(shares, np.array([0.0, 1.0]))
    assert not heat.by_end
    assert heat.cells.tolist() == [[255, 0], [128, 32]]


def test_many_nodes_share_rows_and_no_node_is_lost() -> None:
    nodes = 2 * MOST_ROWS + 1
    shares = np.random.default_rng(0).random((4, nodes)).astype(np.float32)
    heat = heat_map(shares, np.arange(4.0))
    assert heat.nodes_per_row == 3 and heat.cells.shape[0] == -(-nodes // 3) <= MOST_ROWS
    assert heat.cells.mean() / 255 == pytest.approx(shares.mean(), abs=0.01)
    assert heat_map(np.zeros((0, 4), dtype=np.float32), np.zeros(0)).cells.size == 0


def test_curves_share_a_grid_and_end_with_the_run() -> None:
    comparison = made(FIGURES)
    short = picture(end=50.0)
    results = tuple(
        type(trial_result)(
            trial_result.scenario, trial_result.policy, trial_result.seed, trial_result.measures, short
        )
        if trial_result.policy == "kube" and trial_result.picture
        else trial_result
        for trial_result in comparison.results
    )
    comparison = Comparison(comparison.request, results, comparison.rows)
    charts = charts_of(comparison, comparison.request.scenarios[0])
    assert [chart.key for chart in charts] == ["gpu-allocation", "fragmentation", "waiting", "cpu-allocation"]
    long, ended = (charts[0].series[policy] for policy in ("fgd", "kube"))
    assert not np.isnan(long).any() and long[-1] == 100.0
    assert np.isnan(ended[charts[0].axis.values > 50.0]).all() and not np.isnan(ended[:100]).any()
    assert charts[0].axis.unit == "seconds"


def test_ticks_are_round_and_within() -> None:
    assert ticks(0.0, 100.0, 5) == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert ticks(3.0, 3.0) == [3.0]
    for low, high in ((0.001, 0.0023), (-5.0, 1e6), (87.1, 95.9)):
        marks = ticks(low, high)
        assert 2 <= len(marks) <= 9 and all(low <= mark <= high for mark in marks)


def test_plots_take_any_name() -> None:
    before = dict(mpl.rcParams)
    figures = dict.fromkeys(["策略", "a$b$c^{", "_hidden", "مجدول", "\U0001f6a2", ""], FIGURES["fgd"])
    content = render_plots(made(figures, scenarios=("策略$",), drop_failures=True))
    kinds = {"ranking", "allocation", "fragmentation", "waiting"}
    assert {path.rsplit("-", 1)[1] for path in content} >= {f"{k}.{e}" for k in kinds for e in ("png", "svg")}
    for path, data in content.items():
        assert path.isascii() and "/" not in path
        if path.endswith(".png"):
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ElementTree.fromstring(data).tag.endswith("svg")
    assert dict(mpl.rcParams) == before


def test_scenarios_with_one_file_name_do_not_overwrite_each_other() -> None:
    content = render_plots(made(FIGURES, scenarios=("a/b", "a b"), drop_failures=True))
    assert {"a-b-ranking.png", "a-b-2-ranking.png"} <= set(content)


def test_everything_is_written(tmp_path: Path) -> None:
    request = CompareRequest((PodScenario(Tiny()),), ("best_fit", "kube"), seeds=(0, 1), processes=1)
    outputs = write_outputs(compare(request), tmp_path / "out" / "deep", "proreus compare pods")
    Page(outputs.report.read_text(encoding="utf-8"))
    written = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    single = {
        outputs.report,
        outputs.rows_csv,
        outputs.rows_json,
        outputs.per_seed_csv,
        outputs.report.with_name(COMMAND),
    }
    assert written == single | set(outputs.plots)
    assert {path.name for path in outputs.plots} >= {"tiny-ranking.png", "tiny-ranking.svg"}
    assert json.loads(outputs.rows_json.read_bytes())["rows"]
