"""`proreus simulate|compare rebalance` over snapshots, and `proreus bench rebalance`, on small ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from proreus.worlds.rebalance import bench as rebalance
from proreus.worlds.rebalance.snapshots.play import play
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES, make_snapshot_policy
from proreus.worlds.rebalance.snapshots.scenarios import (
    SnapshotScenario,
    parse_snapshot_scenario,
)
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions
from tests.cli.runner import Proreus


def test_simulate_logs_every_migration(proreus: Proreus) -> None:
    ended = proreus(
        *("simulate", "rebalance", "--scenario", "snapshot-small@40", "--policy", "greedy_fragment"),
        *("--budget", "5", "--log", "log.csv", "--json", "r.json", "--seed", "3"),
    )
    assert (ended.code, ended.err) == (0, "")
    measures = json.loads(Path("r.json").read_text())["measures"]
    with Path("log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert 0 < len(rows) == measures["moves"] <= 5
    rates = [measures["fragment_rate_before"] / 100, *(float(row["fragment_rate"]) for row in rows)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(measures["fragment_rate"] / 100)
    assert all(row["from"] != row["to"] for row in rows)


def test_compare_has_policies_of_its_own_by_default(proreus: Proreus) -> None:
    words = ("compare", "rebalance", "--seeds", "2", "--processes", "1", "--out", "out", "--json", "r.json")
    ended = proreus(*words, "--scenario", "snapshot-small@12", "--budget", "4")
    assert (ended.code, ended.err) == (0, "")
    rates = {
        row["policy"]: row["mean"]
        for row in json.loads(Path("r.json").read_text())["rows"]
        if row["measure"] == "fragment_rate"
    }
    assert rates["search"] <= rates["greedy_fragment"] <= rates["hotspot"]
    mixed = proreus(*words, "--scenarios", "snapshot-small,windows/serial")
    assert mixed.code == 2 and "one kind at a time" in mixed.err
    unknown = proreus(*words, "--scenario", "snapshot-small", "--policies", "balance")
    assert unknown.code == 2 and "balance" in unknown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scenario", "snapshot@0"), "number of machines"),
        (("--scenario", "snapshot@many"), "number of machines"),
        (("--scenario", "snapshot", "--budget", "-1"), "budget"),
        (("--scenario", "bytedance", "--data", "."), "reset_vm_pm_id_clear2.json"),
        (("--snapshot", "no.json"), "no.json: no such file"),
        (("--scenario", "snapshot", "--requests", "x"), "--requests is of windows"),
        (("--scenario", "snapshot", "--max-pods", "3"), "--max-pods is of windows"),
        (("--scenario", "snapshot", "--policy", "balance"), "'balance' is for windows"),
    ],
)
def test_bad_snapshots_are_refused_in_a_line(proreus: Proreus, words: tuple[str, ...], message: str) -> None:
    policy = () if "--policy" in words else ("--policy", "search")
    ended = proreus("simulate", "rebalance", *policy, *words)
    assert ended.code == 2 and message in ended.err and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("name", SNAPSHOT_POLICIES.names)
def test_a_run_never_makes_fragments_and_leaves_its_snapshot_alone(name: str) -> None:
    scenario = SnapshotScenario("snapshot-small@10", SnapshotOptions(budget=4), machines=10)
    snapshot = scenario.load(1)
    policy = make_snapshot_policy(name, 0)
    runs = [play(scenario, snapshot, policy, 0, picture=True) for _ in range(2)]
    first, second = (run.outcome for run in runs)
    assert first.rows == second.rows
    assert runs[0].picture is not None
    assert len(first.rows) <= 4 and runs[0].picture.heat.cells.shape == (10, len(first.rows) + 1)
    assert first.measures["fragment_reduction"] == pytest.approx(
        first.measures["fragment_rate_before"] - first.measures["fragment_rate"]
    )


def test_every_claim_of_the_benchmark_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    small = parse_snapshot_scenario("snapshot-small@12", None)
    monkeypatch.setattr(rebalance, "parse_snapshot_scenario", lambda name, data: small)
    monkeypatch.setattr(rebalance, "SOLVER_SECONDS", 20.0)
    monkeypatch.setattr(rebalance, "_BUDGET", 4)
    rows = {row.what.partition(": ")[2]: row for row in rebalance.bench_rebalance(None, lambda _: None)}
    assert rows["share of the solver's reduction"].goal == 97.0
    assert 90.0 <= rows["share of the solver's reduction"].ours <= 100.0 + 1e-9
    assert rows["time"].goal == 5.0 and rows["time"].peer is not None
    reduction, bound = rows["reduction of the fragment rate"], rows["reduction that no plan exceeds"]
    assert 0 < reduction.ours <= bound.ours + 1e-9


def test_a_snapshot_goes_on_from_where_the_last_run_left_it(proreus: Proreus) -> None:
    """Two halves of a budget, through a file, leave what the rule leaves with all of it at once."""
    words = ("simulate", "rebalance", "--policy", "greedy_fragment", "--json", "r.json")
    generated = ("--scenario", "snapshot-small@40", "--seed", "3")
    assert proreus(*words, *generated, "--budget", "4", "--log", "whole.csv").code == 0
    assert proreus(*words, *generated, "--budget", "2", "--export", "half.json").code == 0
    ended = proreus(*words, "--snapshot", "half.json", "--budget", "2", "--log", "rest.csv")
    assert (ended.code, ended.err) == (0, "")
    with Path("whole.csv").open() as whole, Path("rest.csv").open() as rest:
        assert list(csv.reader(whole))[3:] == list(csv.reader(rest))[1:]


def test_the_exact_policy_says_what_it_knows(proreus: Proreus) -> None:
    words = ("simulate", "rebalance", "--scenario", "snapshot-small@12", "--budget", "3")
    ended = proreus(*words, "--policy", "exact@30")
    assert (ended.code, ended.err) == (0, "") and "proven: no plan of 3 migrations" in ended.out
