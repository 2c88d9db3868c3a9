"""Virtual machines in comparisons: scenarios by name, seeds, parts of a trace, pictures and the report."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from proreus.compare.comparison import CompareRequest, compare
from proreus.compare.curves import charts_of
from proreus.compare.ranking import standing
from proreus.compare.report.page import Circumstances, render_report
from proreus.compare.report.summary import findings
from proreus.data.vm_lifetimes import LIFETIME_COLUMNS
from proreus.model.errors import InputError, UsageError
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import Split, split_range
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario
from proreus.worlds.vms.simulation.outcome import MEASURES, trimmed_mean
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from tests.worlds.vms.tables import lifetime_rows

PART_ENDS: dict[Split, int] = {"train": 500, "valid": 700}
"""Of a trace of 1,100 machines."""


def quick(name: str) -> VmScenario:
    return replace(parse_vm_scenario(name, None), starts=3, limit=150)


@pytest.mark.parametrize(
    ("name", "decides"),
    [("waiting@3", "total_wait"), ("recovering@3", "placements"), ("rejecting@3", "rejected")],
)
def test_each_kind_of_scenario_is_told_in_its_own_words(name: str, decides: str) -> None:
    request = CompareRequest((quick(name),), ("first_fit", "worst_fit"), seeds=(0, 1), processes=1)
    comparison = compare(request)
    scenario = comparison.request.scenarios[0]
    order = standing(comparison, scenario)
    assert order is not None and order.measure == decides
    assert {row.measure for row in comparison.rows} <= set(MEASURES)
    assert all(np.isfinite(row.estimate.mean) for row in comparison.rows)
    assert order.policies[0] in findings(comparison, scenario).headline
    charts = charts_of(comparison, scenario)
    assert {"cpu-allocation", "memory-allocation"} <= {chart.key for chart in charts}
    about = Circumstances("proreus compare vms", datetime(2026, 1, 1), "here")
    page = render_report(comparison, about)
    assert "comparison in the world vms" in page and "3 servers" in page and "Servers <small>" in page
    assert " nodes" not in page.split('<script type="application/json"')[0].replace("NUMA nodes", "")


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    request = CompareRequest((quick("waiting@3"),), ("random", "balance_fit"), seeds=(2, 5), processes=1)

    def figures(processes: int) -> list[tuple[int, str, dict[str, float]]]:
        results = compare(replace(request, processes=processes)).results
        return [
            (
                trial_result.seed,
                trial_result.policy,
                {k: v for k, v in trial_result.measures.items() if k != "decisions_per_s"},
            )
            for trial_result in results
        ]

    assert figures(1) == figures(2)


def test_names_of_scenarios() -> None:
    assert parse_vm_scenario("recovering", None).options == SCENARIOS["recovering"]
    assert parse_vm_scenario("recovering@50", None).options.first_servers == 50
    dense = parse_vm_scenario("waiting@7x3", None)
    assert (dense.options.first_servers, dense.load_factor, dense.options.full) == (7, 3, "wait")
    for wrong in ("recoverin", "recovering@", "recovering@0", "a/b", "recovering@5x0", "recovering@99999"):
        with pytest.raises(UsageError):
            parse_vm_scenario(wrong, None)
    with pytest.raises(InputError, match="needs data files"):
        parse_vm_scenario("huawei/waiting", None)
    with pytest.raises(InputError, match="no such file"):
        parse_vm_scenario("huawei/waiting", Path("/nowhere"))


def test_more_load_is_more_machines_at_one_time() -> None:
    options = parse_vm_scenario("recovering@20", None)
    plain = replace(options, starts=2).load(0)
    dense = replace(options, starts=2, load_factor=3).load(0)
    ends = [float(runs.work.arrival[-1]) for runs in (plain, dense)]
    assert ends[1] == pytest.approx(ends[0] / 3, rel=0.1)


def test_runs_start_in_the_part_that_is_asked_for(tmp_path: Path) -> None:
    trace = generate_vms(1_100, 0)
    file = tmp_path / "lt.csv"
    rows = [",".join(map(str, row)) for row in lifetime_rows(trace)]
    file.write_text("\n".join([",".join(LIFETIME_COLUMNS), *rows]) + "\n")
    own = VmScenario("own", file=file, starts=40)
    parts: tuple[Split, ...] = ("train", "valid", "test")
    for part in parts:
        first, last = split_range(part, len(trace))
        starts = replace(own, part=part).load(1).starts
        assert first <= starts.min() and starts.max() < last
        again = replace(own, part=part).load(1).starts
        assert starts.tolist() == again.tolist()
    listed = tmp_path / "starts.npy"
    np.save(listed, np.arange(100))
    published = replace(own, lists=(("test", listed),), starts=30)
    assert published.load(0).starts.tolist() == list(range(30))
    assert published.load(3).starts.tolist() == [*range(90, 100), *range(20)]
    assert not published.caution(range(3)) and not own.caution(range(50))
    assert "play the 100 published starts 1.2 times over" in published.caution(range(4))


def test_runs_end_where_their_part_ends(tmp_path: Path) -> None:
    trace = generate_vms(1_100, 0)
    file = tmp_path / "lt.csv"
    rows = [",".join(map(str, row)) for row in lifetime_rows(trace)]
    file.write_text("\n".join([",".join(LIFETIME_COLUMNS), *rows]) + "\n")
    roomy = VmScenario("own", with_servers(SCENARIOS["recovering"], 400), file=file, starts=30)
    seen: dict[Split, set[int]] = {}
    parts: tuple[Split, ...] = ("train", "valid", "test")
    for part in parts:
        runs = replace(roomy, part=part).load(1)
        figures, _ = play_runs(runs, make_vm_policy("first_fit"))
        # Nothing fills up: every run plays all its machines.
        assert [run.placed for run in figures] == runs.limits.clip(max=len(trace) - runs.starts).tolist()
        seen[part] = {m for run in figures for m in range(run.start, run.start + run.placed)}
        assert max(seen[part]) + 1 == {**PART_ENDS, "test": len(trace)}[part]
        assert (replace(roomy, part=part, limit=7).load(1).limits <= 7).all()
    tested = roomy.load(1)
    untouched = planned_runs(tested.work, roomy.options, tested.starts)
    first_fit = make_vm_policy("first_fit")
    assert play_runs(tested, first_fit)[0] == play_runs(untouched, first_fit)[0], "the test goes to the end"
    assert not seen["train"] & seen["valid"] and not seen["valid"] & seen["test"]
    # SPANE's runs keep SPANE's length, unless a limit is asked for.
    waiting = replace(roomy, options=SCENARIOS["waiting"], part="train")
    runs = waiting.load(1)
    assert runs.limits.tolist() == planned_runs(runs.work, waiting.options, runs.starts).limits.tolist()
    assert (runs.starts + runs.limits).max() > PART_ENDS["train"]
    cut = replace(waiting, limit=200).load(1)
    assert (cut.starts + cut.limits).max() == PART_ENDS["train"]


def test_scenarios_of_two_worlds_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="different worlds"):
        CompareRequest((quick("waiting@3"), PodScenario(Generated("small"))), ("first_fit",))


def test_a_trimmed_mean_leaves_out_a_tenth_at_either_end() -> None:
    assert trimmed_mean(np.array([1e9, 1, 2, 3, 4, 5, 6, 7, 8, -1e9])) == 4.5
    assert trimmed_mean([3.0]) == 3.0
    assert trimmed_mean(np.arange(19.0)) == 9.0
