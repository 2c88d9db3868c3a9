"""`kube import`, `report` and `explain` over a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from proreus.worlds.pods.datasets.generator import generate
from tests.kube.control_plane import ControlPlane
from tests.kube.replayed_week import as_kubernetes, write_week

_WEEK = 7 * 86_400.0


def _proreus(*words: str, told: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "proreus", *words, "--json", str(told)],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(told.read_text())


@pytest.fixture(scope="module")
def week(plane: ControlPlane) -> int:
    """A week of generated pods, as the API server tells of it; how many pods."""
    workload = generate("small", 1, nodes=8, pods=120)
    longest = max(one.arrival + one.duration for one in workload.pods)
    assert longest < _WEEK
    write_week(plane, as_kubernetes(workload, float(int(time.time() - longest)), longest))
    return len(workload.pods)


def test_a_live_cluster_and_kubectls_files_are_imported_alike(
    plane: ControlPlane, week: int, tmp_path: Path
) -> None:
    live = _proreus(
        "kube", "import", "--kubeconfig", str(plane.kubeconfig()), "--out", str(tmp_path / "live"),
        told=tmp_path / "live.json",
    )  # fmt: skip
    assert live["pods"] == week and live["nodes"] == 8 and live["left_out"] == {}
    (tmp_path / "dump.json").write_text(plane.kubectl("get", "nodes,pods", "-A", "-o", "json").stdout)
    filed = _proreus(
        "kube", "import", "--file", str(tmp_path / "dump.json"), "--out", str(tmp_path / "filed"),
        told=tmp_path / "filed.json",
    )  # fmt: skip
    assert {name: filed[name] for name in ("pods", "nodes", "there")} == {
        name: live[name] for name in ("pods", "nodes", "there")
    }
    report = _proreus("kube", "report", str(tmp_path / "live"), "--draws", "2", told=tmp_path / "report.json")
    costs = {one["policy"]: one["cost"] for one in report["policies"]}
    # Recorded by the same rules as are played again: what a replay does not know of is little here.
    assert costs["kube"] == pytest.approx(report["recorded_cost"], rel=0.05)
    assert costs["best_fit"] < costs["kube"]


def test_a_live_pod_is_explained(plane: ControlPlane, week: int, tmp_path: Path) -> None:
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "pause:3.9"}]},
    }
    plane.create("/api/v1/namespaces/default/pods", waiting)
    told = _proreus(
        "kube", "explain", "asked", "--kubeconfig", str(plane.kubeconfig()), told=tmp_path / "told.json"
    )
    assert told["chosen"] and "next came" in told["told"] and len(told["verdicts"]) == 8
