"""One HTML file that tells the whole comparison: no network, no other files, readable on screen and paper.

`outputs` calls `render_report`. Style and script are in `assets/`; the pictures come from `charts`, the
numbers for the script from `report_data`, the sentences from `summary`. Everything from outside is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files

from proreus.compare.comparison import Comparison
from proreus.compare.curves import charts_of
from proreus.compare.number_format import NOTHING, decimals_for, half_width, number, signed, with_unit
from proreus.compare.ranking import among_best
from proreus.compare.report.charts import curve_chart, difference_chart, policy_class, ranking_chart
from proreus.compare.report.data import chart_element, heat_element, report_data
from proreus.compare.report.gantt import gantt_charts
from proreus.compare.report.player import player, player_element
from proreus.compare.report.summary import Findings, findings, overall
from proreus.compare.report.timeline import timelines
from proreus.compare.report.trade_off import trade_off_chart
from proreus.compare.statistics import Row
from proreus.compare.trials import TrialResult
from proreus.contract.scenario import Scenario
from proreus.contract.world import Picture, World

# The page may use what is in it and nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_FEW = 5
"""Policies whose figures find room beside each other; of more, intervals stand below the means."""

_HOW_TO_READ = (
    "Every policy met the same workload in each seed. ± is half of the 95 % Student-t interval of the mean "
    "over seeds. Differences between policies are paired: they are taken seed by seed, so they can be "
    "significant though the intervals of two means overlap. Intervals are not adjusted for the number of "
    "comparisons.",
    "Bold figures are the best of their line or do not differ from it significantly. {caution} "
    "Decision rates were taken while other runs may have shared the machine.",
)


@dataclass(frozen=True)
class Circumstances:
    """How the comparison came about."""

    command: str
    when: datetime
    machine: str


def render_report(comparison: Comparison, about: Circumstances) -> str:
    per_scenario = [findings(comparison, scenario) for scenario in comparison.request.scenarios]
    title = f"Proreus comparison: {', '.join(scenario.name for scenario in comparison.request.scenarios)}"
    sections = "".join(
        _section(comparison, place, scenario_findings) for place, scenario_findings in enumerate(per_scenario)
    )
    body = f"{_contents(per_scenario)}{_summary(per_scenario)}{sections}{_reading(comparison.world)}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_asset('report.css')}{_asset('player.css')}</style>\n</head>\n<body>\n"
        f"{_header(comparison, about)}\n<main>\n{body}</main>\n"
        '<div id="tip" role="status" hidden></div>\n'
        f'<script type="application/json" id="report-data">{report_data(comparison)}</script>\n'
        f"<script>\n{_script()}</script>\n</body>\n</html>\n"
    )


def _script() -> str:
    """The modules as one script: a page that is one file has nowhere to import them from."""
    modules = "".join(_asset(name) for name in ("cividis.js", "player.js", "report.js"))
    return '"use strict";\n' + re.sub(r"^(export |import .*;\n)", "", modules, flags=re.MULTILINE)


def _asset(name: str) -> str:
    return (files("proreus.compare.report") / "assets" / name).read_text(encoding="utf-8")


def _header(comparison: Comparison, about: Circumstances) -> str:
    request = comparison.request
    counts = ", ".join(
        f"{count} {singular if count == 1 else plural}"
        for count, singular, plural in (
            (len(request.policies), "policy", "policies"),
            (len(request.scenarios), "scenario", "scenarios"),
            (len(request.seeds), "seed", "seeds"),
        )
    )
    facts = (
        ("When", escape(about.when.strftime("%Y-%m-%d %H:%M %Z").strip())),
        ("Command", f"<code>{escape(about.command)}</code>"),
        ("Machine", escape(about.machine)),
        ("Seeds", escape(_seeds_listed(request.seeds))),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts)
    return (
        f'<header><p class="mark">Proreus · comparison in the world {escape(comparison.world.name)}</p>'
        f"<h1>{counts}</h1><dl>{listed}</dl></header>"
    )


def _seeds_listed(seeds: Sequence[int]) -> str:
    if len(seeds) > 3 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _contents(per_scenario: Sequence[Findings]) -> str:
    """The way to each scenario, always in sight; of one there is nothing to find."""
    if len(per_scenario) < 2:
        return ""
    links = "".join(
        f'<a href="#scenario-{place}">{escape(findings.scenario.name)}</a>'
        for place, findings in enumerate(per_scenario)
    )
    return f'<nav class="contents" aria-label="Scenarios"><a href="#in-short">In short</a>{links}</nav>'


def _summary(per_scenario: Sequence[Findings]) -> str:
    general = overall(list(per_scenario))
    tiles = "".join(_tile(place, findings) for place, findings in enumerate(per_scenario))
    lead = f'<p class="lead">{escape(general)}</p>' if general else ""
    return (
        f'<section aria-labelledby="in-short"><h2 id="in-short">In short</h2>{lead}'
        f'<div class="tiles">{tiles}</div></section>'
    )


def _tile(place: int, findings: Findings) -> str:
    figure = ""
    if findings.standing is not None:
        best = findings.standing.ranked[0]
        decimals = decimals_for([row.estimate.mean for row in findings.standing.ranked], best.unit)
        value = with_unit(number(best.estimate.mean, decimals), best.unit)
        figure = (
            f'<p class="figure">{escape(value)}</p>'
            f'<p class="by">{escape(best.policy)} · {escape(findings.standing.title)}</p>'
        )
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in findings.remarks)
    notes = f"<ul>{remarks}</ul>" if remarks else ""
    return (
        f'<article class="tile"><h3><a href="#scenario-{place}">{escape(findings.scenario.name)}</a></h3>'
        f"{figure}<p>{escape(findings.headline)}</p>{notes}</article>"
    )


def _section(comparison: Comparison, place: int, findings: Findings) -> str:
    scenario = findings.scenario
    results = comparison.results_for(scenario)
    policies = comparison.request.policies
    order = policies if findings.standing is None else findings.standing.policies
    ranking = ""
    if findings.standing is not None:
        ranking = (
            f"<figure><figcaption>{_ranking_caption(len(comparison.request.seeds))}</figcaption>"
            f"{ranking_chart(findings.standing, results, policies)}</figure>"
        )
        if findings.differences:
            ranking += (
                f"<figure><figcaption>Difference to {escape(order[0])}, paired by seed</figcaption>"
                f"{difference_chart(findings.standing, findings.differences, policies)}</figure>"
            )
        ranking += trade_off_chart(comparison, scenario)
        ranking = f'<div class="charts">{ranking}</div>'
    return (
        f'<section id="scenario-{place}" class="scenario"><h2>{escape(scenario.name)}</h2>'
        f"{_chips(comparison, scenario)}{ranking}{_measures_table(comparison, findings, order)}"
        f"{timelines(comparison, scenario, order)}"
        f"{_curves(comparison, place, scenario)}{_heat_maps(comparison, place, scenario, order)}"
        f"{_gantts(comparison, scenario, order)}"
        f"{_replays(comparison, place, scenario, order)}{_per_seed(results, comparison)}</section>\n"
    )


def _ranking_caption(seeds: int) -> str:
    if seeds == 1:
        return "Ranking: one seed, so no intervals"
    return "Ranking: mean with its 95 % interval; faint dots are single seeds"


def _picture(comparison: Comparison, scenario: Scenario) -> Picture | None:
    pictures = (result.picture for result in comparison.results_for(scenario))
    return next((picture for picture in pictures if picture is not None), None)


def _chips(comparison: Comparison, scenario: Scenario) -> str:
    picture = _picture(comparison, scenario)
    texts = [*(() if picture is None else picture.facts), *scenario.headings.remarks]
    return f'<ul class="chips">{"".join(f"<li>{escape(text)}</li>" for text in texts)}</ul>'


def _swatch(place: int) -> str:
    return (
        f'<svg class="swatch {policy_class(place)}" viewBox="0 0 22 10" aria-hidden="true">'
        '<path class="line" d="M1 5H21"/></svg>'
    )


def _measures_table(comparison: Comparison, findings: Findings, order: Sequence[str]) -> str:
    policies = comparison.request.policies
    heads = "".join(
        f'<th scope="col">{_swatch(policies.index(policy))}{escape(policy)}</th>' for policy in order
    )
    main = findings.standing.measure if findings.standing is not None else ""
    names = [main] if main else []
    known = comparison.world.measures
    names += [name for name in known if name != main]
    lines = []
    for name in names:
        rows = comparison.rows_for(findings.scenario, name)
        if rows:
            best = among_best(comparison, findings.scenario, name)
            dull = all(row.estimate.mean == 0 for row in rows)
            style = "main" if name == main else "dull" if dull else "plain"
            lines.append(_measure_line(rows, order, best, (known[name].in_words, style)))
        if name == main and findings.differences:
            lines.append(_difference_line(findings, order))
    style = "measures many" if len(order) > _FEW else "measures"
    return (
        f'<div class="scroll wide" tabindex="0"><table class="{style}">'
        f'<thead><tr><th scope="col">Measure</th>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
        '</div><p class="note more" hidden>More policies to the right: scroll the table.</p>'
    )


def _measure_line(
    rows: Sequence[Row], order: Sequence[str], best: frozenset[str], look: tuple[str, str]
) -> str:
    title, style = look
    decimals = decimals_for([row.estimate.mean for row in rows], rows[0].unit)
    by_policy = {row.policy: row for row in rows}
    cells = "".join(_estimate_cell(by_policy.get(policy), decimals, policy in best) for policy in order)
    higher = rows[0].better == "higher"
    arrow = (
        f'<span class="way" title="{"more" if higher else "less"} is better">{"↑" if higher else "↓"}</span>'
    )
    unit = f' <span class="unit">{escape(rows[0].unit)}</span>' if rows[0].unit else ""
    return f'<tr class="{style}"><th scope="row">{escape(title)}{unit} {arrow}</th>{cells}</tr>'


def _estimate_cell(row: Row | None, decimals: int, best: bool) -> str:
    if row is None:
        return f"<td>{NOTHING}</td>"
    mean = number(row.estimate.mean, decimals)
    half = half_width(row.estimate, decimals)
    return f'<td{" class=best" if best else ""}>{mean} <span class="half">± {half}</span></td>'


def _difference_line(findings: Findings, order: Sequence[str]) -> str:
    """How far each policy is from the leader, seed by seed."""
    means = [difference.estimate.mean for difference in findings.differences.values()]
    unit = findings.standing.unit if findings.standing is not None else ""
    decimals = decimals_for(means, unit)
    cells = []
    for policy in order:
        difference = findings.differences.get(policy)
        if difference is None:
            cells.append(f"<td>{NOTHING}</td>")
            continue
        sure = '<abbr title="significant at 95 %">*</abbr>' if difference.significant else ""
        cells.append(
            f"<td>{signed(difference.estimate.mean, decimals)}{sure} "
            f'<span class="half">± {half_width(difference.estimate, decimals)}</span></td>'
        )
    unit = "points" if unit.startswith("%") else unit
    return (
        f'<tr class="difference"><th scope="row">… difference to {escape(order[0])}, paired '
        f'<span class="unit">{escape(unit)}</span></th>{"".join(cells)}</tr>'
    )


def _curves(comparison: Comparison, place: int, scenario: Scenario) -> str:
    charts = charts_of(comparison, scenario)
    if not charts:
        return ""
    policies = comparison.request.policies
    keys = "".join(
        f'<button type="button" aria-pressed="true" data-policy="{index}">'
        f"{_swatch(index)}{escape(policy)}</button>"
        for index, policy in enumerate(policies)
    )
    figures = "".join(
        f"<figure><figcaption>{escape(chart.title)}{', %' if chart.unit == '%' else ''}</figcaption>"
        f"{curve_chart(chart, policies, chart_element(place, chart))}"
        f"{f'<p class=note>{escape(chart.note)}</p>' if chart.note else ''}</figure>"
        for chart in charts
    )
    return (
        f"<h3>Over the run <small>seed {comparison.request.seeds[0]}</small></h3>"
        '<div class="curves"><div class="legend" role="group" aria-label="Show or hide policies">'
        f'{keys}</div><div class="charts">{figures}</div></div>'
    )


def _heat_maps(comparison: Comparison, place: int, scenario: Scenario, order: Sequence[str]) -> str:
    policies = comparison.request.policies
    place_name = comparison.world.words.place
    pictures = {
        result.policy: result.picture
        for result in comparison.results_for(scenario)
        if result.picture is not None and result.picture.heat.cells.size
    }
    shown = [policy for policy in order if policy in pictures]
    if not shown:
        return ""
    buttons = ['<button type="button" aria-pressed="true" data-policy="all">all</button>'] + [
        f'<button type="button" aria-pressed="false" data-policy="{policies.index(policy)}">'
        f"{escape(policy)}</button>"
        for policy in shown
    ]
    figures = "".join(
        f'<figure data-policy="{policies.index(policy)}"><figcaption>{escape(policy)}</figcaption>'
        f'<canvas id="{heat_element(place, policies.index(policy))}" role="img" '
        f'aria-label="{escape(f"How full each {place_name} was over time under {policy}")}"></canvas>'
        '<p class="ends"><span>start</span><span>end</span></p></figure>'
        for policy in shown
    )
    first = pictures[shown[0]].heat
    together = first.nodes_per_row
    top = "end fullest" if first.by_end else "are fullest on average"
    merged = f" A row is the mean of {together} neighbouring {place_name}s." if together > 1 else ""
    return (
        f"<h3>{place_name.capitalize()}s <small>seed {comparison.request.seeds[0]}</small></h3>"
        f'<p class="note">Share in use of each {place_name}’s scarcest resource over time; '
        f"the {place_name}s that {top} are on top.{merged}</p>"
        '<div class="heats"><div class="legend" role="group" '
        f'aria-label="Choose a policy">{"".join(buttons)}<span class="scale">0 %<i></i>100 %</span></div>'
        f'<div class="maps">{figures}</div></div>'
    )


def _gantts(comparison: Comparison, scenario: Scenario, order: Sequence[str]) -> str:
    gantts = {
        result.policy: result.picture.gantt
        for result in comparison.results_for(scenario)
        if result.picture is not None and result.picture.gantt is not None
    }
    ordered = {policy: gantts[policy] for policy in order if policy in gantts}
    return gantt_charts(ordered, comparison.request.seeds[0])


def _replays(comparison: Comparison, place: int, scenario: Scenario, order: Sequence[str]) -> str:
    request = comparison.request
    replays = {
        result.policy: result.picture.replay
        for result in comparison.results_for(scenario)
        if result.picture is not None and result.picture.replay is not None
    }
    ordered = {policy: replays[policy] for policy in order if policy in replays}
    return player(player_element(place), ordered, request.policies, request.seeds[0])


def _per_seed(results: Sequence[TrialResult], comparison: Comparison) -> str:
    known, policies = comparison.world.measures, comparison.request.policies
    names = [name for name in known if any(name in result.measures for result in results)]
    decimals = {
        name: decimals_for(
            [result.measures[name] for result in results if name in result.measures], known[name].unit
        )
        for name in names
    }
    heads = "".join(
        f'<th scope="col">{escape(known[name].in_words)}<br>'
        f'<span class="unit">{escape(known[name].unit)}</span></th>'
        for name in names
    )
    ordered = sorted(results, key=lambda result: policies.index(result.policy))
    lines = "".join(
        f'<tr><th scope="row">{escape(result.policy)}</th><td>{result.seed}</td>'
        f"{_plain_cells(result, names, decimals)}</tr>"
        for result in ordered
    )
    return (
        '<details><summary>Every run: values per seed</summary><div class="scroll"><table class="runs">'
        f'<thead><tr><th scope="col">Policy</th><th scope="col">Seed</th>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div></details>"
    )


def _plain_cells(result: TrialResult, names: Iterable[str], decimals: dict[str, int]) -> str:
    return "".join(
        f"<td>{number(result.measures[name], decimals[name]) if name in result.measures else NOTHING}</td>"
        for name in names
    )


def _reading(world: World) -> str:
    texts = (" ".join(text.format(caution=world.words.caution).split()) for text in _HOW_TO_READ)
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in texts)
    return f'<section class="reading"><h2>How to read this</h2>{paragraphs}</section>\n'
