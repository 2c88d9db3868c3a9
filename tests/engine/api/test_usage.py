"""Measured use over the API: metrics.k8s.io, /v1/use, Prometheus' text and the status page's events."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from proreus.engine.api.server.authentication import Role
from proreus.engine.api.server.authorization import Action, allowed
from proreus.engine.api.v1.usage import thinned
from proreus.engine.kubelet.node_status import NodeSpec, NodeState, new_lease, new_node, renewed_lease
from proreus.engine.kubelet.usage.reporter import NodeLoad
from proreus.engine.objects.kinds import LEASE, NODE, POD
from proreus.engine.runtimes.protocol import Capacity, GpuUse, NetworkUse, NodeUse, PodUse, Use
from proreus.engine.runtimes.stats import TOPIC, Measures, Trend, encode
from tests.engine.api.live import Live, live

MIB = 1024 * 1024
ROOM = Capacity({"cpu": "4", "memory": "8Gi", "pods": "10"}, {"cpu": "4", "memory": "8Gi", "pods": "10"})
METRICS = "/apis/metrics.k8s.io/v1beta1"


def _pod(name: str, node: str, **labels: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


async def _fill(door: Live) -> None:
    """Two nodes that were measured, one that was not, and one that is lost; a pod on each."""
    registry, told = door.registry, {}
    for place, name in enumerate(("a", "b", "unmeasured", "lost")):
        node = new_node(
            NodeSpec(name, "10.0.0.1", labels={"disk": "ssd" if place else "hdd"}), NodeState(ROOM), 0.0
        )
        if name == "lost":
            node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        await registry.create(NODE, node)
        lease = new_lease(name, 0.0)
        if name != "unmeasured":
            lease = renewed_lease(lease, NodeLoad(1000 * (place + 1), 100 * MIB, 0), 1_800_000_000.25)
        await registry.create(LEASE, lease)
        made = await registry.create(POD, _pod(f"on-{name}", name, app=f"app-{place}"))
        uid = made["metadata"]["uid"]
        gpu = GpuUse("GPU-1", "H200", 87, MIB, 2 * MIB)
        use = NodeUse(1000 * (place + 1), 100 * MIB, 7 * MIB, 1, 2, NetworkUse(3, 4), (gpu,))
        uses = (Use(uid, "c", 120 * (place + 1), 20 * MIB, 5 * MIB), Use(uid, "side", 5, MIB))
        beside = PodUse(uid, 2 * MIB, NetworkUse(8, 9) if name == "a" else None, (gpu,))
        if name != "unmeasured":
            past = {"": Trend((1, 2, 3), (4096, 0, 0)), uid: Trend((7, 9), (1024, 2048))}
            told[name] = encode(Measures(use, uses, (beside,), past))
    await registry.notes(TOPIC).tell({**told, "gone": told["a"], "strange": b"\xff"})


def _filled(door: Live) -> None:
    asyncio.run_coroutine_threadsafe(_fill(door), door.loop).result(30)


def test_metrics_are_those_of_nodes_that_are_well() -> None:
    with live() as door, door.client() as client:
        assert client.get(f"{METRICS}/nodes").json()["items"] == []
        _filled(door)
        listed = client.get(f"{METRICS}/nodes").json()
        assert (listed["kind"], listed["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
        one = client.get(f"{METRICS}/nodes/b").json()
        assert one == listed["items"][1]
        assert one["usage"] == {"cpu": "2000m", "memory": "102400Ki"}
        assert (one["timestamp"], one["window"]) == ("2027-01-15T08:00:00Z", "10s")
        chosen = client.get(f"{METRICS}/nodes?labelSelector=disk%3Dhdd").json()["items"]
        assert [one["metadata"]["name"] for one in chosen] == ["a"]
        for name in ("unmeasured", "lost", "nobody"):
            assert client.get(f"{METRICS}/nodes/{name}").status_code == 404


def test_pods_have_a_row_for_each_container() -> None:
    with live() as door, door.client() as client:
        _filled(door)
        listed = client.get(f"{METRICS}/namespaces/default/pods").json()
        assert [item["metadata"]["name"] for item in listed["items"]] == ["on-a", "on-b"]
        one = client.get(f"{METRICS}/namespaces/default/pods/on-b").json()
        assert one["containers"] == [
            {"name": "c", "usage": {"cpu": "240m", "memory": "20480Ki"}},
            {"name": "side", "usage": {"cpu": "5m", "memory": "1024Ki"}},
        ]
        assert client.get(f"{METRICS}/pods?labelSelector=app%3Dapp-1").json()["items"] == [one]
        assert client.get(f"{METRICS}/namespaces/other/pods").json()["items"] == []
        for name in ("on-unmeasured", "on-lost", "nobody"):
            assert client.get(f"{METRICS}/namespaces/default/pods/{name}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/nodes", 405),
        ("DELETE", "/nodes/a", 405),
        ("PATCH", "/namespaces/default/pods/on-a", 405),
        ("GET", "/nodes?watch=true", 405),
        ("GET", "/nodes/a/status", 404),
        ("GET", "/pods/on-a", 404),
        ("GET", "/pods?labelSelector=(", 400),
        ("GET", "/pods?fieldSelector=nonsense%3D1", 400),
    ],
)
def test_metrics_are_read_only(cluster: Live, method: str, path: str, code: int) -> None:
    with cluster.client() as client:
        assert client.request(method, METRICS + path, json={}).status_code == code


@pytest.mark.parametrize("role", [Role.VIEWER, Role.AGENT])
def test_viewers_and_agents_may_read_them(role: Role) -> None:
    for resource in ("pods.metrics.k8s.io", "nodes.metrics.k8s.io"):
        assert allowed(role, Action("list", resource)) and allowed(role, Action("get", resource))
        assert not allowed(role, Action("update", resource))


def test_use_tells_requests_and_the_rest_beside_it() -> None:
    with live() as door, door.client() as client:
        _filled(door)
        nodes = client.get("/v1/use/nodes?sort=cpu").json()
        assert (nodes["total"], [node["name"] for node in nodes["nodes"]]) == (2, ["b", "a"])
        first = nodes["nodes"][0]
        assert (first["cpu_milli"], first["memory_bytes"], first["disk_bytes"]) == (2000, 100 * MIB, 7 * MIB)
        assert (first["received_per_second"], first["sent_per_second"]) == (3, 4)
        assert first["gpus"][0]["busy_percent"] == 87
        assert first["allocatable"] == {"cpu_milli": 4000, "memory_bytes": 8192 * MIB}
        assert first["requested"] == {"cpu_milli": 500, "memory_bytes": 64 * MIB} and first["pods"] == 1
        pods = client.get("/v1/use/pods?sort=memory&namespace=default&limit=1").json()
        (pod,) = pods["pods"]
        assert (pods["total"], pod["name"], pod["node"]) == (2, "on-a", "a"), "of equals the first by name"
        assert (pod["cpu_milli"], pod["disk_bytes"], pod["received_per_second"]) == (125, 7 * MIB, 8)
        assert pod["gpus"] == first["gpus"]
        assert pod["limits"] == {"cpu_milli": 1000, "memory_bytes": 128 * MIB}
        assert (pod["cpu_milli_trend"], pods["pods"][0]["memory_bytes_trend"]) == ([], []), "none were wanted"
        pod = client.get("/v1/use/pods?points=9&limit=1").json()["pods"][0]
        assert (pod["cpu_milli_trend"], pod["memory_bytes_trend"]) == ([7, 9], [1024, 2048])
        assert client.get("/v1/use/nodes?points=2").json()["nodes"][0]["cpu_milli_trend"] == [1, 2]
        assert client.get("/v1/use/nodes?points=2&trend=day").json()["nodes"][0]["cpu_milli_trend"] == []
        assert client.get("/v1/use/pods?fieldSelector=metadata.name%3Don-b").json()["total"] == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=size", "sort"),
        ("limit=1001", "limit"),
        ("points=1441", "points"),
        ("points=x", "points"),
        ("trend=week", "trend"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_name(cluster: Live, query: str, field: str) -> None:
    with cluster.client() as client:
        for of in ("nodes", "pods"):
            answer = client.get(f"/v1/use/{of}?{query}")
            assert answer.status_code == 400 and answer.json()["message"].startswith(f"{field}: ")
        assert client.post("/v1/use/nodes").status_code == 405
        assert client.get("/v1/use/all").status_code == 404


def test_prometheus_reads_it() -> None:
    with live() as door, door.client() as client:
        _filled(door)
        lines = client.get("/v1/metrics").text.splitlines()
        assert 'proreus_node_cpu_used_cores{node="a"} 1.0' in lines
        assert f'proreus_node_memory_used_bytes{{node="b"}} {100.0 * MIB!r}' in lines
        who = 'container="c",namespace="default",node="b",pod="on-b"'
        assert f"proreus_container_cpu_used_cores{{{who}}} 0.24" in lines
        assert f"proreus_container_memory_working_set_bytes{{{who}}} {20.0 * MIB!r}" in lines
        assert not any('node="lost"' in line and "node_cpu" in line for line in lines)


def _nodes_told(answer: httpx.Response) -> dict[str, Any]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name == "nodes":
            return {node["name"]: node for node in json.loads(line.removeprefix("data: "))["nodes"]}
    raise AssertionError("the events ended")


def test_the_status_page_is_told_of_it() -> None:
    with live() as door, door.client() as client:
        _filled(door)
        with client.stream("GET", "/v1/events") as answer:
            nodes = _nodes_told(answer)
        assert nodes["a"]["used"] == {"cpu": 1.0, "memory": 100 * MIB}
        assert "used" not in nodes["lost"] and "used" not in nodes["unmeasured"]


def test_what_agents_measure_arrives_with_its_past(cluster: Live) -> None:
    with cluster.client() as client:
        made = {**_pod("measured-here", "node-1"), "kind": "Pod", "apiVersion": "v1"}
        made["metadata"]["annotations"] = {"proreus.io/use-cpu": "300m", "proreus.io/use-memory": "32Mi"}
        assert client.post("/api/v1/namespaces/default/pods", json=made).status_code == 201
        end = time.monotonic() + 60
        while True:
            query = {"fieldSelector": "metadata.name=measured-here", "points": "8"}
            rows = client.get("/v1/use/pods", params=query).json()["pods"]
            if rows and len(rows[0]["cpu_milli_trend"]) >= 2:
                break
            assert time.monotonic() < end, rows
            time.sleep(0.1)
        assert (rows[0]["cpu_milli"], rows[0]["memory_bytes"]) == (300, 32 * MIB)
        assert set(rows[0]["cpu_milli_trend"]) == {300}
        nodes = client.get("/v1/use/nodes?points=8").json()["nodes"]
        node = next(one for one in nodes if one["name"] == "node-1")
        assert node["cpu_milli"] >= 300 and len(node["memory_bytes_trend"]) >= 2
        client.delete("/api/v1/namespaces/default/pods/measured-here?gracePeriodSeconds=0")


def test_the_past_is_thinned_to_means_with_the_newest_whole() -> None:
    assert thinned((), 5) == [] and thinned((1, 2), 0) == []
    assert thinned((1, 2, 3), 5) == [1, 2, 3]
    assert thinned((1, 3, 5, 7, 9), 3) == [1, 4, 8]
    assert len(thinned(tuple(range(90)), 16)) <= 16
