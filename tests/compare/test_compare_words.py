"""Ranking, tables and sentences: the order is right, and no claim goes beyond the intervals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proreus.compare.comparison import Comparison
from proreus.compare.number_format import decimals_for, listing, number, signed
from proreus.compare.ranking import among_best, standing, telling_measures
from proreus.compare.report.summary import findings, overall
from proreus.compare.results import Compared
from proreus.compare.tables import scenario_tables
from tests.compare.compare_cases import made

WORKLOADS = [10.0, 50.0, 30.0, 80.0, 20.0, 60.0]
"""What makes the means vary and is the same for all policies."""


def shifted(by: float, wobble: float = 0.1) -> list[float]:
    return [value + by + wobble * (-1) ** place for place, value in enumerate(WORKLOADS)]


def printed(comparison: Comparison) -> str:
    text = io.StringIO()
    console = Console(file=text, width=200, force_terminal=True, color_system="standard")
    for table in scenario_tables(comparison, 200):
        console.print(table)
    return text.getvalue()


def test_what_decides_depends_on_the_scenario() -> None:
    figures = {"a": {"gpu_allocation_peak": [90.0], "jct_mean": [5.0], "wait_mean": [1.0], "failures": [3.0]}}
    for drop, measure in ((True, "gpu_allocation_peak"), (False, "jct_mean")):
        comparison = made(figures, drop_failures=drop)
        order = standing(comparison, comparison.request.scenarios[0])
        assert order is not None and order.measure == measure
    endless = made({"a": {"wait_mean": [1.0]}})
    order = standing(endless, endless.request.scenarios[0])
    assert order is not None and order.measure == "wait_mean"
    nothing = made({"a": {"decisions": [1.0]}})
    assert standing(nothing, nothing.request.scenarios[0]) is None
    assert "No run gave a measure" in findings(nothing, nothing.request.scenarios[0]).headline


def test_best_are_those_that_pairs_cannot_tell_apart() -> None:
    comparison = made(
        {
            "worse": {"jct_mean": shifted(5.0)},
            "equal": {"jct_mean": shifted(0.05, wobble=-3.0)},
            "best": {"jct_mean": shifted(0.0)},
            "absent": {"failures": [0.0] * 6},
        }
    )
    scenario = comparison.request.scenarios[0]
    order = standing(comparison, scenario)
    assert order is not None and order.policies == ("best", "equal", "worse", "absent")
    # The intervals of all three means overlap; only the pairs show that one is worse.
    assert among_best(comparison, scenario, "jct_mean") == {"best", "equal"}
    assert among_best(comparison, scenario, "failures") == frozenset()


def test_one_seed_has_one_best() -> None:
    comparison = made({"a": {"jct_mean": [1.0]}, "b": {"jct_mean": [1.1]}, "c": {"jct_mean": [1.0]}})
    assert among_best(comparison, comparison.request.scenarios[0], "jct_mean") == {"a", "c"}


def test_the_table_sorts_emphasises_and_shows_a_dash_without_interval() -> None:
    text = printed(made({"slow": {"jct_mean": [9.0]}, "fast": {"jct_mean": [2.0]}}))
    assert text.index("fast") < text.index("slow")
    assert "\x1b[1;32m2\x1b[0m" in text and "±—" in text
    assert "\x1b[1;32m9" not in text


def test_the_table_shows_names_as_they_are() -> None:
    text = printed(made({"[bold]x[/]": {"jct_mean": [9.0]}, "策略": {"jct_mean": [2.0]}}))
    assert "[bold]x[/]" in text and "策略" in text


def test_columns_that_are_zero_for_all_are_left_out() -> None:
    comparison = made({"a": {"jct_mean": [9.0], "preemptions": [0.0], "failures": [2.0]}})
    assert telling_measures(comparison, comparison.request.scenarios[0]) == ("jct_mean", "failures")


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (shifted(5.0), "less than kube; the difference is significant at 95 % ("),
        (shifted(0.05, wobble=-3.0), "the difference is not significant at 95 % (−"),
        (shifted(0.0), "exactly as kube does"),
        ([value + 2.0 for value in shifted(0.0)], "less than kube, the same in all 6 seeds"),
    ],
)
def test_the_headline_claims_what_the_pairs_allow(second: list[float], says: str) -> None:
    comparison = made({"fgd": {"jct_mean": shifted(0.0)}, "kube": {"jct_mean": second}})
    headline = findings(comparison, comparison.request.scenarios[0]).headline
    assert headline.startswith("fgd completes a pod in ")
    assert says in headline


def test_more_is_better_is_told_in_points() -> None:
    figures = {"kube": {"gpu_allocation_peak": [93.0, 93.2]}, "fgd": {"gpu_allocation_peak": [95.0, 95.3]}}
    comparison = made(figures, drop_failures=True)
    summary = findings(comparison, comparison.request.scenarios[0])
    assert summary.headline.startswith("fgd allocates 95.15 % of the GPUs, 2.05 points more than kube; ")
    assert summary.differences["kube"].estimate.mean == pytest.approx(-2.05)
    assert any("2 seeds give wide intervals" in remark for remark in summary.remarks)


def test_one_seed_is_called_chance() -> None:
    comparison = made({"a": {"jct_mean": [1.0]}, "b": {"jct_mean": [2.0]}})
    assert "may be chance" in findings(comparison, comparison.request.scenarios[0]).headline


def test_a_fast_policy_that_leaves_pods_out_is_told_off() -> None:
    comparison = made(
        {"lazy": {"jct_mean": [1.0], "failures": [7.0]}, "fair": {"jct_mean": [2.0], "failures": [0.0]}}
    )
    remarks = findings(comparison, comparison.request.scenarios[0]).remarks
    assert any("lazy also leaves 7 pods without a place" in remark for remark in remarks)


def test_whom_the_leader_beats() -> None:
    figures = {
        "a": {"jct_mean": shifted(0.0)},
        "b": {"jct_mean": shifted(0.05, wobble=-3.0)},
        "c": {"jct_mean": shifted(5.0)},
    }
    comparison = made(figures, scenarios=("one", "two"))
    per_scenario = [findings(comparison, scenario) for scenario in comparison.request.scenarios]
    assert "a is significantly ahead of c, but not of b." in per_scenario[0].remarks
    best = "a has the best mean in all 2 scenarios"
    assert overall(per_scenario) == f"{best}, but nowhere significantly ahead of the second."
    assert overall(per_scenario[:1]) == ""
    sure = made({"a": figures["a"], "c": figures["c"]}, scenarios=("one", "two"))
    certain = [findings(sure, scenario) for scenario in sure.request.scenarios]
    assert overall(certain) == f"{best}, each time significantly ahead of the second."
    assert (
        overall([per_scenario[0], certain[1]]) == f"{best}, significantly ahead of the second in 1 of them."
    )


def test_leads_of_several_policies_are_as_sure_as_they_are() -> None:
    other = made({"a": {"jct_mean": shifted(5.0)}, "c": {"jct_mean": shifted(0.0)}}, scenarios=("two",))
    first = made({"a": {"jct_mean": shifted(0.0)}, "c": {"jct_mean": shifted(0.05, wobble=-3.0)}})
    per_scenario = [findings(comparison, comparison.request.scenarios[0]) for comparison in (first, other)]
    assert overall(per_scenario) == (
        "No policy leads everywhere: a has the best mean in 1 of 2 scenarios, c in 1; "
        "1 of these leads is significant."
    )


def test_a_tie_has_no_leader() -> None:
    figures = {policy: {"jct_mean": [1.0, 2.0]} for policy in ("a", "b", "c")}
    comparison = made(figures, scenarios=("one", "two"))
    per_scenario = [findings(comparison, scenario) for scenario in comparison.request.scenarios]
    assert "exactly as b does" in per_scenario[0].headline
    assert any("All policies come out alike" in remark for remark in per_scenario[0].remarks)
    assert overall(per_scenario) == "No scenario has a policy that is ahead of all others."


def test_figures_as_people_write_them() -> None:
    assert number(1234567.4, 0) == "1,234,567"
    assert number(-3.14159, 2) == "−3.14"
    assert number(-0.001, 2) == "0.00"
    assert signed(0.004, 2) == "0.00"
    assert signed(2.5, 1) == "+2.5"
    assert decimals_for([95.123], "%") == 2
    assert decimals_for([3.0, 4.0], "pods") == 0
    assert decimals_for([12_345.6], "s") == 0
    assert listing(["a", "b", "c"]) == "a, b and c"


def test_differences_are_those_of_the_report() -> None:
    figures = {"a": {"jct_mean": shifted(0.0)}, "b": {"jct_mean": shifted(5.0, wobble=0.3)}}
    (row,) = Compared(made(figures)).differences
    assert (row["policy"], row["leader"], row["measure"], row["n"]) == ("b", "a", "jct_mean", 6)
    assert row["low"] < row["mean"] < row["high"] and row["significant"]
    assert row["mean"] == pytest.approx(5.0)
