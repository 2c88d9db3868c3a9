"""The roles of deploy/ are enough for what runs with them, and for nothing more: a real API server judges."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.control_plane import ControlPlane, control_plane, node, pod, service_account, wait_for
from tests.kube.scheduler_process import SchedulerProcess
from tests.kube.test_deploy import OVERLAYS, objects_of

_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/proreus/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/proreus/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/proreus/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/proreus/deployments",
    "Service": "/api/v1/namespaces/proreus/services",
}
_READS = ("list nodes", "watch pods", "list poddisruptionbudgets.policy", "watch replicasets.apps")
_MAY = {
    "shadow": (*_READS, "list persistentvolumes", "list csinodes.storage.k8s.io"),
    "scheduler": (*_READS, "create pods/binding", "patch pods/status", "delete pods", "create events"),
    "extender": _READS,
    "scaler": ("list deployments.apps", "patch deployments.apps/scale", "watch statefulsets.apps"),
    "rebalance": (*_READS, "create pods/eviction", "patch nodes"),
}
_MAY_NOT = {
    "shadow": ("create pods/binding", "delete pods", "patch pods", "patch nodes", "get secrets"),
    "scheduler": ("patch nodes", "get secrets", "create pods", "create pods/eviction", "list secrets"),
    "extender": ("create pods/binding", "delete pods", "get secrets", "patch pods/status"),
    "scaler": ("patch deployments.apps", "delete deployments.apps", "list pods", "get secrets"),
    "rebalance": ("delete pods", "delete nodes", "create pods/binding", "get secrets"),
}


def _name(overlay: str) -> str:
    return f"system:serviceaccount:proreus:proreus-{overlay}"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with everything of deploy/ applied."""
    users = [service_account("proreus", f"proreus-{overlay}") for overlay in OVERLAYS]
    with control_plane(tmp_path_factory.mktemp("plane"), users) as running:
        done = set()
        for overlay in OVERLAYS:
            for obj in objects_of(overlay):
                key = (obj["kind"], obj["metadata"]["name"])
                if key not in done and obj["kind"] in _PATHS:  # CronJob is of a newer Kubernetes
                    done.add(key)
                    running.create(_PATHS[obj["kind"]], obj)
        running.add_nodes([node(f"n{index}") for index in range(3)])
        running.create("/api/v1/namespaces/default/pods", pod("waits", schedulerName="nobody"))
        yield running


def _can(plane: ControlPlane, overlay: str, asked: str) -> bool:
    verb, resource = asked.split()
    resource, _, sub = resource.partition("/")
    resource, _, group = resource.partition(".")
    attributes = {"verb": verb, "resource": resource, "subresource": sub, "group": group}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": _name(overlay),
            "groups": ["system:serviceaccounts", "system:serviceaccounts:proreus", "system:authenticated"],
            "resourceAttributes": {"namespace": "default", **attributes},
        },
    }
    told = plane.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(told["status"]["allowed"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_part_may_do_what_it_needs_and_nothing_else(plane: ControlPlane, overlay: str) -> None:
    assert [asked for asked in _MAY[overlay] if not _can(plane, overlay, asked)] == []
    assert [asked for asked in _MAY_NOT[overlay] if _can(plane, overlay, asked)] == []


def test_kubectl_agrees(plane: ControlPlane) -> None:
    yes = plane.kubectl("auth", "can-i", "list", "pods", "-A", user=_name("extender"), check=False)
    no = plane.kubectl("auth", "can-i", "create", "pods/binding", user=_name("extender"), check=False)
    assert yes.stdout.strip() == "yes" and no.stdout.strip() == "no"


def _proreus(plane: ControlPlane, overlay: str, told: Path, *words: str) -> Any:
    config = str(plane.kubeconfig(_name(overlay)))
    done = subprocess.run(
        [sys.executable, "-m", "proreus", "kube", *words, "--kubeconfig", config, "--json", str(told)],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(told.read_text())


def test_who_follows_can_follow(plane: ControlPlane, tmp_path: Path) -> None:
    told = _proreus(plane, "extender", tmp_path / "explain.json", "explain", "waits")
    assert told["chosen"] in ("n0", "n1", "n2")


def test_who_rebalances_can_plan_and_read_its_switch(plane: ControlPlane, tmp_path: Path) -> None:
    switch = "--stop-config-map=proreus/proreus-rebalance"
    told = _proreus(plane, "rebalance", tmp_path / "plan.json", "rebalance", "--dry-run", switch)
    assert told["plan"]["moves"] == []


@pytest.mark.parametrize("overlay", ["extender", "scaler"])
def test_what_the_manifest_starts_becomes_ready_with_its_own_token(
    plane: ControlPlane, overlay: str, tmp_path: Path
) -> None:
    """The very words of the manifest, but for addresses and TLS."""
    (deployment,) = [obj for obj in objects_of(overlay) if obj["kind"] == "Deployment"]
    words = [
        word
        for word in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        if not word.startswith(("--tls", "--host", "--port", "--http-port"))
    ]
    ports = ["--http-port", "0", *(["--port", "0"] if overlay == "extender" else [])]
    ready = tmp_path / "ready.json"
    config = str(plane.kubeconfig(_name(overlay)))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "proreus", *words, *ports, "--kubeconfig", config, "--json", str(ready)],
            stdout=log,
            stderr=log,
        )

    def is_ready() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()
        return ready.exists() and ready.stat().st_size > 0

    try:
        wait_for(is_ready, 120, (tmp_path / "log").read_text())
        if overlay == "scaler":
            path = "/apis/coordination.k8s.io/v1/namespaces/proreus/leases/proreus-scaler"
            wait_for(lambda: plane.exists(path), 30, "it could not take its Lease")
    finally:
        process.terminate()
        process.wait(30)
    said = (tmp_path / "log").read_text()
    assert "forbidden" not in said.lower(), said


def test_the_scheduler_leads_binds_and_is_stopped_with_its_role(plane: ControlPlane, tmp_path: Path) -> None:
    words = (
        "--lease-namespace",
        "proreus",
        "--policy",
        "kube",
        "--canary",
        "best_fit",
        "--canary-share",
        "0.5",
    )
    running = SchedulerProcess(plane.kubeconfig(_name("scheduler")), tmp_path / "s", *words).start()
    try:
        running.wait_ready()
        pods = "/api/v1/namespaces/default/pods"
        plane.create(pods, pod("ours", schedulerName="proreus"))
        wait_for(lambda: bool(plane.get(f"{pods}/ours")["spec"].get("nodeName")), 30, running.log())
        plane.create(pods, pod("huge", {"cpu": "64"}, schedulerName="proreus"))
        wait_for(lambda: bool(plane.get(f"{pods}/huge")["status"].get("conditions")), 30, running.log())
        running.wait_metric("events_total", 2)
        assert running.metric("events_total", result="dropped") == 0
        switch = {"metadata": {"name": "proreus-scheduler"}, "data": {"stop": "true"}}
        plane.create("/api/v1/namespaces/proreus/configmaps", switch)
        running.wait_metric("stopped", 1, 3)
        plane.delete("/api/v1/namespaces/proreus/configmaps/proreus-scheduler")
        assert running.get("/readyz").splitlines()[0] == "ok"
    finally:
        running.kill()
    for name in ("ours", "huge"):
        plane.delete(f"{pods}/{name}")


def test_the_shadow_follows_with_its_role(plane: ControlPlane, tmp_path: Path) -> None:
    words = ("--mode", "shadow", "--policy", "kube", "--record", str(tmp_path / "record"))
    running = SchedulerProcess(plane.kubeconfig(_name("shadow")), tmp_path / "s", *words).start()
    try:
        running.wait_ready()
        assert running.get("/readyz") == "ok\n", "nothing that it follows is refused to it"
    finally:
        running.kill()
