"""`proreus kube rebalance` against a real API server and kube-scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.control_plane import ControlPlane, node, pod, wait_for

Object = dict[str, Any]
_PODS = "/api/v1/namespaces/default/pods"


def _owned(name: str) -> Object:
    made = pod(name, {"cpu": "1", "memory": "128Mi"}, labels={"app": "web"}, terminationGracePeriodSeconds=0)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


class _Owner(threading.Thread):
    """What a ReplicaSet's controller does: as many pods as there were."""

    def __init__(self, plane: ControlPlane, count: int) -> None:
        super().__init__(daemon=True)
        self.plane, self.count, self.made, self.ended = plane, count, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            for _ in range(self.count - len(self.plane.pods("default"))):
                self.made += 1
                self.plane.create(_PODS, _owned(f"again-{self.made}"))


def _nodes(plane: ControlPlane) -> Counter[str]:
    return Counter(one["spec"].get("nodeName", "") for one in plane.pods("default"))


def _rebalance(plane: ControlPlane, told: Path, *flags: str) -> tuple[int, str, Any]:
    words = [sys.executable, "-m", "proreus", "kube", "rebalance", "--kubeconfig", str(plane.kubeconfig())]
    done = subprocess.run(
        [*words, "--per-minute", "600", "--json", str(told), *flags],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.returncode, done.stderr, json.loads(told.read_text()) if told.exists() else None


@pytest.fixture
def spread(plane: ControlPlane) -> Iterator[_Owner]:
    """Six pods on three nodes of eight cores, spread by the real kube-scheduler."""
    plane.add_nodes([node(f"n{index}") for index in range(3)])
    plane.start_scheduler()
    plane.create_many(_PODS, [_owned(f"web-{index}") for index in range(6)])
    wait_for(lambda: not _nodes(plane)[""], 60, plane.log("kube-scheduler"))
    assert len(_nodes(plane)) == 3
    owner = _Owner(plane, 6)
    owner.start()
    yield owner
    owner.ended.set()
    owner.join()
    plane.stop_schedulers()
    for one in plane.pods("default"):
        plane.delete(f"{_PODS}/{one['metadata']['name']}")
    for index in range(3):
        plane.delete(f"/api/v1/nodes/n{index}")
        plane.delete(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n{index}")


def test_nodes_really_become_empty(plane: ControlPlane, spread: _Owner, tmp_path: Path) -> None:
    code, says, dry = _rebalance(plane, tmp_path / "dry.json", "--dry-run")
    assert code == 0, says
    assert dry["plan"]["expected"]["nodes"] == 1 and spread.made == 0
    code, says, made = _rebalance(plane, tmp_path / "made.json", "--apply")
    assert code == 0, says
    assert len(made["evicted"]) == 4 and made["measured_gain"] == pytest.approx(dry["gain"])
    assert len(_nodes(plane)) == 1
    closed = [one for one in plane.get("/api/v1/nodes")["items"] if one["spec"].get("unschedulable")]
    assert len(closed) == 2 and all(
        "proreus.io/rebalanced" in one["metadata"]["annotations"] for one in closed
    )


def test_the_switch_and_the_budget_are_heeded(plane: ControlPlane, spread: _Owner, tmp_path: Path) -> None:
    switch = {"metadata": {"name": "proreus-rebalance"}, "data": {"stop": "true"}}
    plane.create("/api/v1/namespaces/kube-system/configmaps", switch)
    code, says, _ = _rebalance(plane, tmp_path / "stopped.json", "--apply")
    assert code == 1 and "kube-system/proreus-rebalance" in says and spread.made == 0
    assert not any(one["spec"].get("unschedulable") for one in plane.get("/api/v1/nodes")["items"])
    plane.delete("/api/v1/namespaces/kube-system/configmaps/proreus-rebalance")
    budget = {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    plane.create(budgets, budget)
    code, says, kept = _rebalance(plane, tmp_path / "kept.json", "--apply")
    plane.delete(f"{budgets}/web")
    assert code == 0, says
    assert kept["plan"]["moves"] == [] and spread.made == 0
    assert kept["plan"]["left_alone"] == {"a disruption budget allows none": 6}
