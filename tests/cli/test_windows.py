"""`proreus simulate|compare|train rebalance` over windows: files, formats, bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from proreus.worlds.rebalance.windows.simulation.outcome import MEASURES
from tests.cli.runner import Proreus

LAYOUT = {
    f"node{n}": {
        "total_cpu": 10,
        "total_mem": 10,
        "pods": [{"pod_name": f"pod{n}{k}", "request_cpu": 1, "request_mem": 1} for k in "ab"],
    }
    for n in range(2)
}


def own_requests() -> tuple[str, ...]:
    """Flags for requests of one's own in the current folder."""
    rows = [f"{60 * k},,{1 + k % 3},1" for k in range(200)]
    Path("requests.csv").write_text("time,pod,cpu,mem\n" + "\n".join(rows) + "\n")
    Path("layout.json").write_text(json.dumps(LAYOUT))
    return ("--requests", "requests.csv", "--layout", "layout.json")


def test_simulate_writes_measures_log_and_layout(proreus: Proreus) -> None:
    ended = proreus(
        *("simulate", "rebalance", "--policy", "learned", *own_requests(), "--log", "log.csv"),
        *("--export", "end.json", "--json", "r.json"),
    )
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(Path("r.json").read_text())
    assert (result["world"], result["policy"]) == ("rebalance", "learned")
    assert set(result["measures"]) == set(MEASURES)
    with Path("log.csv").open() as file:
        rows = list(csv.DictReader(file))
    requests = sum(int(row["requests"]) for row in rows)
    over = sum(int(row["over_requests"]) for row in rows)
    assert result["measures"]["violations"] == pytest.approx(100 * over / requests)
    end = json.loads(Path("end.json").read_text())
    assert sorted(pod["pod_name"] for node in end.values() for pod in node["pods"]) == [
        "pod0a",
        "pod0b",
        "pod1a",
        "pod1b",
    ]


def test_nodes_can_be_watched(proreus: Proreus) -> None:
    words = ("simulate", "rebalance", "--policy", "random", *own_requests())
    ended = proreus(*words, "--watch", "1000", "--export", "end.json")
    assert (ended.code, ended.err) == (0, "")
    # Of a pipe the last frame alone, above the measures.
    head, *frame = ended.out.split("random on windows/serial")[0].splitlines()
    assert head.startswith("window ") and ended.out.count("window 1") == head.count("window 1")
    end = json.loads(Path("end.json").read_text())
    for line, (name, node) in zip(frame, end.items(), strict=False):
        assert line.startswith(f"{name} cpu ▕")
        assert [pod["pod_name"] in line for pod in node["pods"]] == [True] * len(node["pods"])
    assert proreus(*words).out.startswith("random on")


def test_migrations_can_be_watched(proreus: Proreus) -> None:
    words = ("simulate", "rebalance", "--scenario", "snapshot-small", "--policy", "greedy_fragment")
    ended = proreus(*words, "--budget", "2", "--watch", "1000", "--log", "moves.csv")
    assert (ended.code, ended.err) == (0, "")
    with Path("moves.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    source, target = (last[end].partition("/")[0] for end in ("from", "to"))
    lines = ended.out.splitlines()
    rate = 100 * float(last["fragment_rate"])
    assert lines[0] == f"2 of 2 migrations, fragment rate {rate:.2f} %: {last['vm']} {source} → {target}"
    assert len(lines[1]) == 12  # a sign a machine
    assert lines[2].startswith(f"from {source} ") and lines[3].startswith(f"  to {target} ")
    assert "1 of 2 migrations" not in ended.out and lines[4].startswith("greedy_fragment on")
    nothing = proreus(*words[:-1], "nothing", "--watch", "1000")
    assert nothing.out.startswith("0 of 50 migrations") and "from" not in nothing.out


def test_compare_ranks_policies_over_seeds(proreus: Proreus) -> None:
    ended = proreus(
        *("compare", "rebalance", "--policies", "nothing,hotspot", "--scenarios", "windows/serial"),
        *("--seeds", "2", "--processes", "1", "--out", "out", "--json", "r.json"),
    )
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(Path("r.json").read_text())
    assert document["world"] == "rebalance"
    violations = {row["policy"]: row["mean"] for row in document["rows"] if row["measure"] == "violations"}
    assert violations["hotspot"] < violations["nothing"]
    assert Path("out/report.html").exists()


def test_train_keeps_a_run_that_plays_and_refuses_another(proreus: Proreus) -> None:
    words = ("train", "rebalance", "--algo", "es", "--scenarios", "windows/serial", "--out", "run")
    small = ("--population", "4", "--deployments", "1", "--validation-seeds", "1", "--stretch", "10")
    ended = proreus(*words, *small, "--generations", "1", "--processes", "1")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(Path("run/best/card.json").read_text())["world"] == "rebalance"
    assert proreus("simulate", "rebalance", "--policy", "run", *own_requests()).code == 0
    again = proreus(*words, *small)
    assert again.code == 2 and "--resume run" in again.err
    pods = proreus("train", "pods", "--resume", "nowhere")
    assert pods.code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scenario", "windows/seriell"), "did you mean 'windows/serial'"),
        (("--scenario", "windows/monitor"), "PROREUS_DATA"),
        (("--policy", "hotspt"), "did you mean 'hotspot'"),
        (("--policy", "hotspot@hot"), "after @"),
        (("--budget", "-1"), "budget: -1 is negative"),
        (("--max-pods", "2"), "max_pods: 2"),
        (("--threshold", "5"), "threshold: 5"),
        (("--policy", "hotspot@7"), "after @"),
        (("--policy", "search"), "is for snapshots"),
        (("--watch", "-1"), "--watch -1"),
        (("--layout", "no.json"), "--layout is for requests"),
        (("--nodes", "3"), "--nodes is for requests"),
        (("--migration-cost", "-1"), "--migration-cost"),
        (("--requests", "no.csv", "--layout", "no.json", "--nodes", "3"), "--nodes"),
        (("--requests", "no.csv"), "no.csv: no such file"),
        (("--requests", "no.csv", "--layout", "no.json"), "no.json: no such file"),
    ],
)
def test_bad_input_ends_with_one_line(proreus: Proreus, words: tuple[str, ...], message: str) -> None:
    ended = proreus("simulate", "rebalance", *words)
    assert ended.code == 2 and ended.out == ""
    assert message in ended.err and len(ended.err.splitlines()) == 1


def test_windows_are_played_from_what_cleaning_writes(proreus: Proreus) -> None:
    """With every request, with whole windows only, and on a layout."""
    rows = [f"2026-01-01T00:{k // 60 % 60:02}:{k % 60:02}Z,shop,{1 + k % 3},1Gi" for k in range(0, 3600, 7)]
    Path("log.csv").write_text("time,service,cpu,mem\n" + "\n".join(rows) + "\n")
    assert proreus("data", "clean", "log.csv", "--out", "cleaned", "--pods", "6").code == 0
    assert proreus("data", "clean", "log.csv", "--out", "whole", "--pods", "6", "--no-requests").code == 0
    served = {}
    for folder in ("cleaned", "whole"):
        ended = proreus(
            *("simulate", "rebalance", "--policy", "hotspot", "--requests", folder, "--nodes", "3"),
            *("--log", f"{folder}.log", "--export", f"{folder}.json"),
        )
        assert (ended.code, ended.err) == (0, "")
        with Path(f"{folder}.log").open() as file:
            served[folder] = sum(int(row["requests"]) for row in csv.DictReader(file))
        layout = json.loads(Path(f"{folder}.json").read_text())
        assert sorted(pod["pod_name"] for node in layout.values() for pod in node["pods"]) == [
            f"shop-{k}" for k in range(6)
        ]
    assert served["whole"] == 3 * 6  # a request a pod in each of the last three of twelve windows
    assert served["cleaned"] == sum(1 for k in range(0, 3600, 7) if k >= 2700)
    again = proreus(
        *("simulate", "rebalance", "--requests", "cleaned", "--layout", "cleaned.json", "--policy", "nothing")
    )
    assert (again.code, again.err) == (0, "")


def test_a_folder_that_cleaning_did_not_write_is_named(proreus: Proreus) -> None:
    Path("empty").mkdir()
    ended = proreus("simulate", "rebalance", "--requests", "empty")
    assert ended.code == 2 and "requests.csv" in ended.err
    Path("nameless.csv").write_text("time,pod,cpu,mem\n1,,1,1\n")
    ended = proreus("simulate", "rebalance", "--requests", "nameless.csv")
    assert ended.code == 2 and "no row names a pod" in ended.err
    Path("named.csv").write_text("time,pod,cpu,mem\n1,a,1,1\n")
    ended = proreus("simulate", "rebalance", "--requests", "named.csv", "--nodes", "0")
    assert ended.code == 2 and "nodes" in ended.err


def test_a_migration_costs_as_told_whatever_the_units(proreus: Proreus) -> None:
    """Gigabytes written as bytes change nothing, and neither does a cost of zero but the reward."""
    rows = [(60 * k, f"pod{k % 7}", 1 + k % 5, 2 + k % 3) for k in range(400)]
    measures = {}
    for name, unit in (("small", 1), ("large", 1024**3)):
        text = "".join(f"{time},{pod},{cpu},{mem * unit}\n" for time, pod, cpu, mem in rows)
        Path(f"{name}.csv").write_text("time,pod,cpu,mem\n" + text)
        for cost in ("0.01", "0"):
            words = ("--requests", f"{name}.csv", "--nodes", "2", "--policy", "hotspot@0.5")
            ended = proreus("simulate", "rebalance", *words, "--migration-cost", cost, "--json", "r.json")
            assert (ended.code, ended.err) == (0, "")
            measures[name, cost] = json.loads(Path("r.json").read_text())["measures"]
    assert measures["small", "0.01"]["migrated"] > 0
    for cost in ("0.01", "0"):
        for key in ("violations", "migrated", "reward"):
            assert measures["small", cost][key] == pytest.approx(measures["large", cost][key])
    moved = measures["small", "0.01"]["migrated"]
    assert measures["small", "0"]["reward"] - measures["small", "0.01"]["reward"] == pytest.approx(
        0.01 * moved
    )


def test_seeds_that_play_the_same_recorded_windows_are_told(proreus: Proreus) -> None:
    words = ("compare", "rebalance", *own_requests(), "--policies", "nothing,hotspot", "--processes", "1")
    ended = proreus(*words, "--seeds", "2", "--out", "out")
    assert (ended.code, ended.err) == (0, "") and "1 stretches for 2 seeds" in ended.out
    ended = proreus(*words, "--seeds", "1", "--out", "out")
    assert ended.code == 0 and "note:" not in ended.out


def test_policies_weigh_what_is_told_in_other_processes_too(proreus: Proreus) -> None:
    words = ("compare", "rebalance", "--policies", "learned", *own_requests(), "--seeds", "2")
    documents = []
    for objective in ("violations", "migrations"):
        flags = (
            "--objective",
            objective,
            "--processes",
            "2",
            "--out",
            objective,
            "--json",
            f"{objective}.json",
        )
        ended = proreus(*words, *flags)
        assert ended.code == 0
        documents.append(json.loads(Path(f"{objective}.json").read_text()))
    assert documents[0] != documents[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--objective", "wait=1"), "--objective wait: the policy was trained for violations, migrations"),
        (("--objective", "violations=-1"), "a weight is a number from 0 on"),
        (("--objective", "violations", "--policy", "balance"), "--objective: no policy weighs any (balance)"),
        (("--scenario", "snapshot-small", "--objective", "violations"), "no policy over snapshots reads it"),
        (("--scenario", "snapshot-small", "--seconds", "0"), "a number of seconds above 0"),
    ],
)
def test_wishes_that_mean_nothing_end_with_one_line(
    words: tuple[str, ...], message: str, proreus: Proreus
) -> None:
    policy = () if "--scenario" in words or "--policy" in words else ("--policy", "learned")
    ended = proreus("simulate", "rebalance", *policy, *words)
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1
