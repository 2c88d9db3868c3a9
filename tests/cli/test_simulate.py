"""`proreus simulate pods`: results, logs and reasons."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from proreus.worlds.pods.policies.catalogue import POLICIES
from proreus.worlds.pods.simulation.outcome import MEASURES, STATUS_NAMES
from tests.cli.runner import Ended, Proreus, openb_files, run_process

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: web-1, labels: {topology.kubernetes.io/zone: a, kubernetes.io/hostname: web-1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: web-2, labels: {topology.kubernetes.io/zone: b, kubernetes.io/hostname: web-2}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {topology.kubernetes.io/zone: b, kubernetes.io/hostname: gpu-1}}
spec: {taints: [{key: nvidia.com/gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110", nvidia.com/gpu: "4"}}
"""
WORK = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: shop, image: shop:1, resources: {requests: {cpu: "2", memory: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: nightly, annotations: {proreus.io/arrival: "5", proreus.io/duration: "600"}}
spec:
  completions: 2
  parallelism: 2
  template:
    metadata: {labels: {app: nightly}}
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: batch:1, resources: {requests: {cpu: "2", memory: 1Gi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 2, selector: {matchLabels: {app: shop}}}
---
apiVersion: v1
kind: Pod
metadata: {name: hotfix, annotations: {proreus.io/arrival: "10", proreus.io/duration: "60"}}
spec:
  priorityClassName: urgent
  containers: [{name: main, image: fix:1, resources: {requests: {cpu: "1", memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: training, annotations: {proreus.io/arrival: "20", proreus.io/duration: "300"}}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers: [{name: main, image: train:1, resources: {limits: {cpu: "4", memory: 8Gi, nvidia.com/gpu: 2}}}]
"""


def result(path: Path) -> dict[str, Any]:
    """A JSON result without the one figure that differs between runs."""
    content: dict[str, Any] = json.loads(path.read_text())
    assert content["measures"].pop("decisions_per_s") > 0
    return content


def log(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def reasons(out: str) -> dict[str, tuple[str, str]]:
    """Node -> (total, refused by) of the tables of reasons in the output."""
    reasons = {}
    for line in out.splitlines():
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        if line.startswith("│") and len(cells) >= 3 and cells[0] and cells[0] not in MEASURES:
            reasons[cells[0]] = (cells[-2], cells[-1])
    return reasons


def manifests(folder: Path) -> list[str]:
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "work.yaml").write_text(WORK)
    return ["--format", "manifests", "--nodes", "cluster.yaml", "--pods", "work.yaml"]


def test_json_has_its_documented_shape(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus("simulate", "pods", "--policy", "best_fit", "--seed", "3", "--json", "r.json")
    assert (ended.code, ended.err) == (0, "")
    content = json.loads((tmp_path / "r.json").read_text())
    assert list(content) == ["world", "scenario", "policy", "seed", "measures"]
    assert (content["world"], content["scenario"], content["policy"], content["seed"]) == (
        "pods",
        "small",
        "best_fit",
        3,
    )
    assert set(content["measures"]) <= set(MEASURES)
    for name in content["measures"]:
        assert re.search(rf"│ {name} +│", ended.out)


@pytest.mark.parametrize("policy", ["kube", "random"])
def test_the_same_seed_gives_the_same_result(policy: str, proreus: Proreus, tmp_path: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        words = ("simulate", "pods", "--policy", policy, "--seed", seed, "--json", f"{name}.json")
        assert proreus(*words, "--log", f"{name}.csv").code == 0
    assert result(tmp_path / "a.json") == result(tmp_path / "b.json")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert result(tmp_path / "a.json")["measures"] != result(tmp_path / "c.json")["measures"]


def test_the_log_has_a_row_per_pod(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("simulate", "pods", "--log", "log.csv", "--json", "r.json").code == 0
    text = (tmp_path / "log.csv").read_text()
    assert text.startswith("pod,status,node,arrival,start,finish,evictions\n")
    rows = log(tmp_path / "log.csv")
    assert len({row["pod"] for row in rows}) == len(rows) > 100
    assert {row["status"] for row in rows} <= set(STATUS_NAMES)
    done = [row for row in rows if row["status"] == "done"]
    for row in done:
        assert row["node"].startswith("node-")
        assert float(row["arrival"]) <= float(row["start"]) <= float(row["finish"])
    measures = result(tmp_path / "r.json")["measures"]
    assert sum(int(row["evictions"]) for row in rows) == measures["preemptions"] > 0
    completion = sum(float(row["finish"]) - float(row["arrival"]) for row in done) / len(done)
    assert completion == pytest.approx(measures["jct_mean"])


def test_the_log_of_a_small_trace_is_exact(proreus: Proreus, tmp_path: Path) -> None:
    flags = openb_files(tmp_path)
    assert proreus("simulate", "pods", "--policy", "first_fit", *flags, "--log", "log.csv").code == 0
    assert (tmp_path / "log.csv").read_text().splitlines() == [
        "pod,status,node,arrival,start,finish,evictions",
        "p-0,done,n-0,0.0,0.0,60.0,0",
        "p-1,running,n-1,1.0,1.0,,0",  # the first node has no GPU; this pod never leaves
        "p-2,done,n-0,2.0,2.0,42.0,0",
    ]


def explained(proreus: Proreus, tmp_path: Path, pod: str, *flags: str) -> Ended:
    """Explains a pod; asserts that the result is the one without --explain."""
    words = ("simulate", "pods", *flags)
    assert proreus(*words, "--log", "plain.csv", "--json", "plain.json").code == 0
    ended = proreus(*words, "--explain", pod, "--log", "told.csv", "--json", "told.json")
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "plain.csv").read_bytes() == (tmp_path / "told.csv").read_bytes()
    assert result(tmp_path / "plain.json") == result(tmp_path / "told.json")
    return ended


@pytest.mark.parametrize("policy", POLICIES.names)
def test_every_policy_gives_a_reason_per_node(policy: str, proreus: Proreus, tmp_path: Path) -> None:
    ended = explained(proreus, tmp_path, "app-000-0", "--policy", policy)
    by_node = reasons(ended.out)
    assert sorted(by_node) == [f"node-{index:04d}" for index in range(20)]
    assert all(total or refused for total, refused in by_node.values())
    (row,) = (row for row in log(tmp_path / "told.csv") if row["pod"] == "app-000-0")
    assert re.search(rf"app-000-0 goes to {row['node']} \({policy}\)", ended.out)
    total, refused = by_node[row["node"]]
    assert total and not refused


@pytest.mark.parametrize("tie", ["ordered", "random", "rotating"])
def test_explaining_does_not_change_tie_breaks(tie: str, proreus: Proreus, tmp_path: Path) -> None:
    explained(proreus, tmp_path, "app-000-0", "--policy", "worst_fit", "--tie", tie)
    explained(proreus, tmp_path, "app-000-0", "--kube-version", "1.34", "--tie", tie)


def test_a_large_cluster_is_cut_short(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("simulate", "pods", "--scenario", "gpu", "--policy", "fgd", "--log", "log.csv").code == 0
    pod = log(tmp_path / "log.csv")[0]["pod"]
    ended = proreus("simulate", "pods", "--scenario", "gpu", "--policy", "fgd", "--explain", pod)
    assert len(reasons(ended.out)) == 40
    assert "80 more nodes not shown." in " ".join(ended.out.split())


def test_manifests_run_with_all_their_rules(proreus: Proreus, tmp_path: Path) -> None:
    flags = manifests(tmp_path)
    ended = explained(proreus, tmp_path, "hotfix", *flags)
    assert re.search(r"t=10 s: hotfix evicts nightly-[01] from web-[12] and goes there \(kube\)", ended.out)
    by_node = reasons(ended.out)
    assert set(by_node) >= {"web-1", "web-2", "gpu-1"}
    assert "nvidia.com/gpu" in by_node["gpu-1"][1] or "taint" in by_node["gpu-1"][1].lower()
    rows = {row["pod"]: row for row in log(tmp_path / "told.csv")}
    assert sorted(rows) == ["hotfix", "nightly-0", "nightly-1", "shop-0", "shop-1", "training"]
    # The budget and the lower place in the queue protect the shop; the job pays for the hotfix.
    assert [rows[name]["evictions"] for name in ("shop-0", "shop-1")] == ["0", "0"]
    assert sorted(rows[name]["evictions"] for name in ("nightly-0", "nightly-1")) == ["0", "1"]
    assert {rows["shop-0"]["node"], rows["shop-1"]["node"]} == {"web-1", "web-2"}
    assert (rows["training"]["node"], rows["training"]["finish"]) == ("gpu-1", "320.0")
    assert rows["hotfix"]["status"] == rows["nightly-0"]["status"] == rows["nightly-1"]["status"] == "done"


def test_manifests_without_preemption(proreus: Proreus, tmp_path: Path) -> None:
    ended = explained(proreus, tmp_path, "hotfix", *manifests(tmp_path), "--no-preempt")
    assert "has to wait" in ended.out
    assert all(row["evictions"] == "0" for row in log(tmp_path / "told.csv"))


def test_every_policy_runs_the_manifests(proreus: Proreus, tmp_path: Path) -> None:
    flags = manifests(tmp_path)
    for policy in POLICIES.names:
        ended = explained(proreus, tmp_path, "training", "--policy", policy, *flags)
        assert "training goes to gpu-1" in ended.out


def test_names_with_markup_are_printed_as_they_are(proreus: Proreus, tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn[bold],4000,8192,0,\n"
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np[red],1,1,0,0\n"
    ended = explained(proreus, tmp_path, "p[red]", *openb_files(tmp_path, nodes, pods))
    assert "p[red] goes to n[bold]" in ended.out
    assert "n[bold]" in reasons(ended.out)


def test_a_file_name_with_markup_is_printed_as_it_is(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus("simulate", "pods", *openb_files(tmp_path), "--log", "[bold]x.csv")
    assert "log: [bold]x.csv" in ended.out


def test_a_real_process_gives_the_same_result(proreus: Proreus, tmp_path: Path) -> None:
    words = ("simulate", "pods", "--seed", "5", "--log")
    assert proreus(*words, "here.csv").code == 0
    ended = run_process(*words, "there.csv", cwd=tmp_path, LC_ALL="C", PYTHONUTF8="0")
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()
    assert "\x1b" not in ended.out  # no colours in a pipe
