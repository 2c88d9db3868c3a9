"""A real kube-scheduler schedules through `proreus kube extender`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.control_plane import ControlPlane, node, pod, wait_for


@contextlib.contextmanager
def started_extender(plane: ControlPlane, folder: Path, *flags: str) -> Iterator[dict[str, str]]:
    """The command, ready; the addresses of its two doors."""
    ready = folder / "ready.json"
    words = [sys.executable, "-m", "proreus", "kube", "extender", "--kubeconfig", str(plane.kubeconfig())]
    with (folder / "extender.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, "--port", "0", "--http-port", "0", "--json", str(ready), *flags], stdout=log, stderr=log
        )
    try:

        def answers() -> bool:
            assert process.poll() is None, (folder / "extender.log").read_text()
            return ready.exists() and ready.stat().st_size > 0

        wait_for(answers, 120, "the extender did not start")
        told = json.loads(ready.read_text())
        yield {name: f"http://127.0.0.1:{told[name]['port']}" for name in ("extender", "http")}
    finally:
        process.terminate()
        assert process.wait(30) == 0


def configured(url: str, **more: object) -> dict[str, object]:
    """What kube-scheduler is told of the extender."""
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 1000,
        "nodeCacheCapable": True,
        **more,
    }
    return {"extenders": [extender]}


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture(autouse=True)
def empty(plane: ControlPlane) -> Iterator[None]:
    """Each test has nodes and pods of its own."""
    yield
    plane.stop_schedulers()
    for one in plane.pods():
        plane.delete(f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}")
    for one in plane.get("/api/v1/nodes")["items"]:
        plane.delete(f"/api/v1/nodes/{one['metadata']['name']}")
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{one['metadata']['name']}"
        plane.delete(lease)


def _places(plane: ControlPlane) -> Counter[str]:
    return Counter(one["spec"].get("nodeName", "") for one in plane.pods())


def test_the_policy_decides_among_what_the_filters_leave(plane: ControlPlane, tmp_path: Path) -> None:
    """best_fit packs where kube-scheduler alone would spread."""
    tainted = [{"key": "keep", "value": "out", "effect": "NoSchedule"}]
    plane.add_nodes([node(f"n{index}") for index in range(10)])
    plane.add_nodes([node("tight", {"cpu": "2"}, taints=tainted)])
    with started_extender(plane, tmp_path, "--policy", "best_fit") as doors:
        plane.start_scheduler(configured(doors["extender"]))
        pods = [pod(f"w-{index}", {"cpu": "500m", "memory": "64Mi"}) for index in range(40)]
        plane.create_many("/api/v1/namespaces/default/pods", pods)
        wait_for(lambda: not _places(plane)[""], 60, plane.log("kube-scheduler"))
        places = _places(plane)
        # 8 cores a node hold 16 of them; the tainted node would be the tightest fit.
        assert "tight" not in places and len(places) == 3, places
        counted = _metrics(doors["http"])
        assert 'proreus_extender_calls_total{result="policy",verb="prioritize"} 40.0' in counted, counted


def test_whole_nodes_do_as_well_and_bindings_are_ours(plane: ControlPlane, tmp_path: Path) -> None:
    plane.add_nodes([node(f"n{index}") for index in range(5)])
    with started_extender(plane, tmp_path, "--policy", "learned", "--bind") as doors:
        plane.start_scheduler(configured(doors["extender"], nodeCacheCapable=False, bindVerb="bind"))
        pods = [pod(f"w-{index}", {"cpu": "500m", "memory": "64Mi"}) for index in range(20)]
        plane.create_many("/api/v1/namespaces/default/pods", pods)
        wait_for(lambda: not _places(plane)[""], 60, plane.log("kube-scheduler"))
        counted = _metrics(doors["http"])
        assert 'proreus_extender_calls_total{result="bound",verb="bind"} 20.0' in counted, counted


def test_shares_of_gpus_that_kube_scheduler_knows_nothing_of(plane: ControlPlane, tmp_path: Path) -> None:
    plane.add_nodes([node("gpu", {"nvidia.com/gpu": "2"}), node("plain")])
    share = {"proreus.io/gpu-milli": "600", "proreus.io/gpu-count": "1"}
    with started_extender(plane, tmp_path, "--bind") as doors:
        plane.start_scheduler(configured(doors["extender"], bindVerb="bind"))
        for index in range(3):
            plane.create("/api/v1/namespaces/default/pods", pod(f"share-{index}", annotations=share))
        wait_for(lambda: _places(plane)["gpu"] == 2, 60, plane.log("kube-scheduler"))
        bound = [one["metadata"]["annotations"] for one in plane.pods() if one["spec"].get("nodeName")]
        assert sorted(notes["proreus.io/gpu-devices"] for notes in bound) == ["0", "1"]

        def told_why() -> bool:
            waits = [one for one in plane.pods() if not one["spec"].get("nodeName")]
            conditions = waits[0].get("status", {}).get("conditions", [])
            return any("Gpu: not enough devices" in each.get("message", "") for each in conditions)

        wait_for(told_why, 30, "the third pod is not told why it waits")


def test_without_the_extender_pods_go_on_where_it_is_ignorable(plane: ControlPlane, tmp_path: Path) -> None:
    plane.add_nodes([node(f"n{index}") for index in range(3)])
    with started_extender(plane, tmp_path) as doors:
        plane.start_scheduler(configured(doors["extender"], ignorable=True, httpTimeout="1s"))
    plane.create_many("/api/v1/namespaces/default/pods", [pod(f"w-{index}") for index in range(5)])
    wait_for(lambda: not _places(plane)[""], 60, plane.log("kube-scheduler"))


def test_an_api_server_that_is_away_is_no_reason_to_fail(plane: ControlPlane, tmp_path: Path) -> None:
    """What was known is answered from; what happened meanwhile is known once it is back."""
    plane.add_nodes([node("n0"), node("n1", {"cpu": "4"})])

    def liked(doors: dict[str, str], *names: str) -> dict[str, int]:
        body = json.dumps({"Pod": pod("asked", {"cpu": "1"}), "NodeNames": names}).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{doors['extender']}/prioritize", body, head)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {one["Host"]: one["Score"] for one in json.load(answer)}

    def health(doors: dict[str, str]) -> str:
        with urllib.request.urlopen(f"{doors['http']}/healthz", timeout=10) as answer:
            return str(json.load(answer)["status"])

    with started_extender(plane, tmp_path, "--policy", "best_fit") as doors:
        assert liked(doors, "n0", "n1")["n1"] == 10
        for _ in range(2):
            plane.kill()
            wait_for(lambda: health(doors) == "degraded", 30, "it has not noticed")
            assert liked(doors, "n0", "n1")["n1"] == 10
            plane.start()
        plane.add_nodes([node("n2", {"cpu": "2"})])
        wait_for(lambda: liked(doors, "n0", "n2")["n2"] == 10, 60, "the new node is not known")
