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
        (("--scenario", "snapshot", "--seconds", "0"), "--seconds 0"),
        (("--scenario", "windows/serial", "--seconds", "3"), "--seconds: no policy over windows"),
        (("--scenario", "windows/serial", "--strict"), "--strict is of snapshots"),
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
    small = ("snapshot-small@50", 0)
    monkeypatch.setattr(rebalance, "BEST_KNOWN", {small: rebalance.BEST_KNOWN[small]})
    rows = {row.what: row for row in rebalance.bench_rebalance(None, lambda _: None)}
    for budget in rebalance.BUDGETS:
        what = f"snapshot-small@50, {budget} migrations"
        share = rows[f"{what}: share of the best known reduction"]
        assert share.goal == 98.0 and share.ok
        assert share.peer is not None and share.peer < share.ours <= 100.0
        assert rows[f"{what}: share that is proven"].ours <= share.ours
        assert rows[f"{what}: time"].goal == 5.0


def test_a_snapshot_that_contradicts_itself_is_told_of_or_refused(proreus: Proreus) -> None:
    words = ("simulate", "rebalance", "--budget", "3", "--policy", "greedy_fragment")
    assert proreus(*words, "--scenario", "snapshot-small@40", "--export", "sound.json").code == 0
    content = json.loads(Path("sound.json").read_text())
    for host in content["cluster_list"][0]["host_info"]:
        host["numa"][1]["memory_huge_free_mb"] = host["numa"][1]["memory_huge_total_mb"]
    Path("odd.json").write_text(json.dumps(content))
    ended = proreus(
        "simulate", "rebalance", "--budget", "3", "--snapshot", "odd.json", "--export", "after.json"
    )
    assert (ended.code, ended.err) == (0, "")
    assert "NUMA nodes list more memory free and in use than they have" in " ".join(ended.out.split())
    assert proreus(*words, "--snapshot", "after.json", "--strict").code == 0
    refused = proreus(*words, "--snapshot", "odd.json", "--strict")
    assert refused.code == 2 and "odd.json: " in refused.err and "(--strict)" in refused.err


def test_the_default_policy_of_snapshots_searches_and_says_what_is_proven(proreus: Proreus) -> None:
    words = ("simulate", "rebalance", "--scenario", "snapshot-small@12", "--budget", "3", "--json", "r.json")
    ended = proreus(*words, "--seconds", "30")
    assert (ended.code, ended.err) == (0, "") and "proven: no plan of 3 migrations" in ended.out
    assert json.loads(Path("r.json").read_text())["policy"] == "search"


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
