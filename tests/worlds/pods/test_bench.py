"""`proreus bench pods` on small sizes: the peer is a fair one, and the verdict is the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proreus.cli.main import main
from proreus.contract.benchmark import BenchRow, claim
from proreus.model.workload import Workload
from proreus.worlds.pods import bench as pods
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.state.compile import compile_workload

# Full nodes, a rotating start (from 100 nodes on kube looks at a part of them), and both.
SIZES = [(1, 40), (3, 120), (7, 20), (99, 250), (100, 250), (101, 300), (130, 400), (250, 300)]


@pytest.mark.parametrize(("nodes", "count"), SIZES)
def test_the_plain_peer_chooses_as_kube_does(nodes: int, count: int) -> None:
    outcome = simulate(compile_workload(pods.basic_workload(nodes, count)), make_policy("kube"))
    rate, chosen = pods.plain_kube(nodes, count)
    assert [row[2] for row in outcome.log] == chosen
    assert rate > 0


def small_trace(preset: str, seed: int, nodes: int, **sizes: int) -> Workload:
    """A generated workload of few nodes and pods, whatever is asked for."""
    return generate(preset, seed, nodes=min(nodes, 20), **{name: min(sizes[name], 1_500) for name in sizes})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark on a few nodes."""
    workload, peer = pods.basic_workload, pods.plain_kube

    def small_workload(nodes: int, count: int) -> Workload:
        return workload(min(nodes, 30), min(count, 100))

    def small_peer(nodes: int, count: int) -> tuple[float, list[str]]:
        return peer(min(nodes, 30), min(count, 100))

    monkeypatch.setattr(pods, "basic_workload", small_workload)
    monkeypatch.setattr(pods, "plain_kube", small_peer)
    monkeypatch.setattr(pods, "generate", small_trace)
    monkeypatch.setattr(pods, "_PEER_PODS", 50)
    monkeypatch.setattr(pods, "_SIZES", (5, 10))
    monkeypatch.setattr(pods, "_REPEATS", 1)
    monkeypatch.delenv("PROREUS_DATA", raising=False)


@pytest.mark.usefixtures("small")
def test_the_whole_benchmark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = main(["bench", "pods", "--json", str(tmp_path / "bench.json")])
    said = capsys.readouterr()
    assert said.err == "" and "proreus bench pods" in said.out
    content = json.loads((tmp_path / "bench.json").read_text())
    assert content["bench"] == "pods"
    rows = [BenchRow(**row) for row in content["rows"]]
    assert code == (0 if all(row.ok is not False for row in rows) else 1)
    assert all(row.ours > 0 for row in rows)
    assert [row.goal for row in rows[:3]] == [pods.KUBE_GOAL, pods.KUBE_GOAL, pods.FGD_GOAL]
    assert rows[1].peer == pods.SCHEDULER_PERF
    cached = next(row for row in rows if row.what == "FGD, node scores computed")
    assert cached.peer is not None and cached.ours < cached.peer
    large = [row for row in rows if row.what.startswith("kube, large, 20 nodes, 1,500 pods")]
    assert [row.unit for row in large] == ["CPU-s", "scores"]
    assert large[1].peer is not None and large[1].ours < large[1].peer
    for row in rows:
        assert (row.peer is None) == (row.peer_name == "") == (row.ratio is None)
        assert (row.goal is None) == (row.ok is None)


@pytest.mark.usefixtures("small")
def test_the_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the scenario large all nodes are asked for, and a tenth of them by default."""
    asked = []

    def noted(preset: str, seed: int, **sizes: int) -> Workload:
        if preset == "large":
            asked.append(sizes)
        return small_trace(preset, seed, **sizes)

    monkeypatch.setattr(pods, "generate", noted)
    for flags in ([], ["--full"]):
        main(["bench", "pods", *flags])
    assert asked == [{"nodes": 500, "pods": 3_000}, {"nodes": 5_000, "pods": 30_000}]


def test_a_bench_of_one_size_has_no_full_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "vms", "--full"]) == 2
    assert "Unrecognized options: --full" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_a_peer_that_disagrees_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pods, "plain_kube", lambda nodes, count: (1.0, ["node-0"] * count))
    assert main(["bench", "pods", "--json", str(tmp_path / "bench.json")]) == 1
    assert capsys.readouterr().err == "proreus: kube and its plain Python peer chose different nodes\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ours", "code", "verdict"), [(3.0, 0, "yes"), (1.0, 1, "NO")])
def test_a_missed_goal_is_exit_code_1_and_still_written(
    ours: float,
    code: int,
    verdict: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def rows(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
        tell("measuring")
        yield claim("rate", "1/s", ours, goal=2.0, peer=(0.5, "them"))
        yield claim("memory", "MiB", 12_345.0)

    monkeypatch.setattr(pods, "bench_pods", rows)
    monkeypatch.delenv("PROREUS_DATA", raising=False)
    assert main(["bench", "pods", "--json", str(tmp_path / "bench.json")]) == code
    out = capsys.readouterr().out
    assert verdict in out and "12,345 MiB" in out and "(them)" in out
    assert json.loads((tmp_path / "bench.json").read_text())["rows"][0]["ok"] is (code == 0)


def test_a_result_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pods, "bench_pods", lambda data, tell: iter([claim("memory", "MiB", 1.0)]))
    monkeypatch.delenv("PROREUS_DATA", raising=False)
    assert main(["bench", "pods", "--json", str(tmp_path / "no" / "bench.json")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
