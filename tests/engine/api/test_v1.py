"""Plain REST under /v1."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.store.memory import MemoryStore
from proreus.policies.policy_folders import PolicyFolders
from tests.engine.api.live import Live, live


def _pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]},
    }


def test_schedulers_are_switched_in_their_config_map() -> None:
    with live() as door, door.client() as client:
        assert client.get("/v1/schedulers").json() == {"schedulers": []}
        chosen = {"policy": "kube_plus", "shadow": "kube", "deadline_ms": 20.0}
        assert client.put("/v1/schedulers/mine", json=chosen).json() == {"name": "mine", **chosen}
        assert client.get("/v1/schedulers/mine").json() == {"name": "mine", **chosen}
        stored = client.get("/api/v1/namespaces/kube-system/configmaps/proreus-schedulers").json()
        assert json.loads(stored["data"]["mine"]) == chosen
        put_up = {**chosen, "candidate": "best_fit", "share": 0.2}
        assert client.put("/v1/schedulers/mine", json=put_up).json() == {"name": "mine", **put_up}
        assert client.put("/v1/schedulers/mine", json={**put_up, "share": 0.6}).status_code == 400
        assert client.put("/v1/schedulers/mine", json={"policy": ""}).status_code == 400
        assert client.put("/v1/schedulers/mine", json={"rule": "kube"}).status_code == 400
        assert client.delete("/v1/schedulers/mine").status_code == 200
        assert client.get("/v1/schedulers/mine").status_code == 404


def test_a_policy_that_cannot_decide_is_refused_and_its_field_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def decide(self, observation):\n        return None\n"
    )
    (tmp_path / "torn.py").write_text("class Torn(:\n")
    wrong = [
        ("policy", {"policy": "nonsense"}),
        ("policy", {"policy": str(tmp_path / "no-checkpoint")}),
        ("policy", {"policy": f"{tmp_path}/torn.py:Torn"}),
        ("policy", {"policy": f"{tmp_path}/mine.py:Other"}),
        ("shadow", {"policy": "kube", "shadow": "nonsense"}),
        ("candidate", {"policy": "kube", "candidate": "nonsense"}),
    ]
    with live(folders=PolicyFolders.of((tmp_path,))) as door, door.client() as client:
        for field, choice in wrong:
            answer = client.put("/v1/schedulers/nope", json=choice)
            assert answer.status_code == 400, choice
            assert answer.json()["message"].startswith(f"{field}: "), choice
        assert client.get("/v1/schedulers").json() == {"schedulers": []}
        assert client.put("/v1/schedulers/a", json={"policy": f"{tmp_path}/mine.py:Mine"}).status_code == 200


_MARKS = """
from pathlib import Path
Path({mark!r}).touch()
class Mine:
    def decide(self, observation):
        return None
"""


def test_what_the_operator_has_not_named_is_refused_with_field_and_flag_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, elsewhere = tmp_path / "named", tmp_path / "elsewhere"
    for folder in (named, elsewhere):
        folder.mkdir(mode=0o755)
    mark = tmp_path / "it-ran"
    (elsewhere / "evil.py").write_text(_MARKS.format(mark=str(mark)))
    (named / "out.py").symlink_to(elsewhere / "evil.py")
    monkeypatch.chdir(elsewhere)
    monkeypatch.syspath_prepend(elsewhere)
    evil = f"{elsewhere}/evil.py:Mine"
    names = [evil, "evil.py:Mine", "./evil.py:Mine", f"{named}/../elsewhere/evil.py:Mine"]
    names += [f"{named}/out.py:Mine", "evil:Mine", "os:system", f"planner@{evil}", "planner@evil:Mine"]
    names += [str(elsewhere), f"vector@{elsewhere}", "/etc", "../elsewhere"]
    config_maps = "/api/v1/namespaces/kube-system/configmaps"
    with live(folders=PolicyFolders.of((named,))) as door, door.client() as client:
        assert client.put("/v1/schedulers/sound", json={"policy": "kube"}).status_code == 200
        for name in names:
            for field in ("policy", "shadow", "candidate"):
                answer = client.put("/v1/schedulers/x", json={"policy": "kube", field: name})
                assert answer.status_code == 403, name
                assert answer.json()["message"].startswith(f"{field}: "), answer.json()
                assert "--policy-folder" in answer.json()["message"], answer.json()
            for data in ({"x": name}, {"x": json.dumps({"policy": "kube", "shadow": name})}):
                stated = {"metadata": {"name": "proreus-schedulers"}, "data": data}
                merge = {"content-type": "application/merge-patch+json"}
                apply = {"content-type": "application/apply-patch+yaml"}
                whole = {"apiVersion": "v1", "kind": "ConfigMap", **stated}
                path = f"{config_maps}/proreus-schedulers"
                for answer in (
                    client.put(path, json=whole),
                    client.post(config_maps, json=whole),
                    client.patch(path, json={"data": data}, headers=merge),
                    client.patch(f"{path}?fieldManager=m", content=json.dumps(whole), headers=apply),
                ):
                    assert answer.status_code == 403, (name, answer.json())
                    (cause,) = answer.json()["details"]["causes"]
                    assert cause["field"] == "data.x" and "--policy-folder" in cause["message"]
        assert [scheduler["name"] for scheduler in client.get("/v1/schedulers").json()["schedulers"]] == [
            "sound"
        ]
    assert not mark.exists()


def test_a_policy_that_fails_is_told_beside_its_scheduler() -> None:
    around = ApiDependencies(
        schedulers={"default-scheduler": Chosen("mine.py:Mine"), "other": Chosen("kube")},
        failing=lambda: {"default-scheduler": {"policy": "ValueError: no idea"}},
    )
    app = create_app(Registry(MemoryStore()), ApiOptions(), around)

    async def ask() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/v1/schedulers")).json()["schedulers"]

    failing = {one["name"]: one.get("failing") for one in asyncio.run(ask())}
    assert failing == {"default-scheduler": {"policy": "ValueError: no idea"}, "other": None}


def test_what_a_pod_without_a_node_is_asked_is_told_what_it_waits_for() -> None:
    with live(agents=True) as door, door.client() as client:
        waiting = _pod("waiting")
        waiting["spec"]["schedulerName"] = "nobody"
        client.post("/api/v1/namespaces/default/pods", json=waiting)
        log = "/api/v1/namespaces/default/pods/waiting/log"
        run = "/v1/namespaces/default/pods/waiting/exec"
        for answer in (client.get(log), client.post(run, json={"command": ["ls"]})):
            assert answer.status_code == 400
            assert answer.json()["message"] == (
                "pod waiting does not have a host assigned: it waits to be scheduled"
            )
        condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
        client.patch(
            "/api/v1/namespaces/default/pods/waiting/status",
            json={"status": {"conditions": [condition]}},
            headers={"content-type": "application/merge-patch+json"},
        )
        message = client.get(log).json()["message"]
        assert message == "pod waiting does not have a host assigned: 0/3 nodes are available"


def test_policies_are_those_that_place_pods() -> None:
    with live() as door, door.client() as client:
        names = {policy["name"] for policy in client.get("/v1/policies").json()["policies"]}
        assert {"random", "kube", "kube_plus"} <= names


def test_images_are_what_nodes_report() -> None:
    with live() as door, door.client() as client:
        status = {"images": [{"names": ["nginx:1"], "sizeBytes": 5}]}
        for name in ("a", "b"):
            client.post("/api/v1/nodes", json={"metadata": {"name": name}, "status": status})
        images = client.get("/v1/images").json()["images"]
        assert images == [{"names": ["nginx:1"], "size_bytes": 5, "nodes": ["a", "b"]}]


def test_metrics_count_requests_pods_and_nodes() -> None:
    with live() as door, door.client() as client:
        client.post("/api/v1/namespaces/default/pods", json=_pod("p"))
        lines = client.get("/v1/metrics").text.splitlines()
        assert 'proreus_api_requests_total{code="201",verb="create"} 1.0' in lines
        assert any(line.startswith("proreus_api_loop_held_longest_seconds ") for line in lines)
        found = client.get("/v1/metrics?format=json").json()
        assert found["proreus_pods"]["samples"] == [{"labels": {"phase": "Pending"}, "value": 1.0}]
        assert found["proreus_pods_waiting"]["samples"][0]["value"] == 1.0


def test_decisions_are_read_from_annotations_newest_first() -> None:
    with live() as door, door.client() as client:
        for name in ("first", "second"):
            noted = json.dumps({"policy": "kube", "node": "n", "score": 3})
            client.post("/api/v1/namespaces/default/pods", json=_pod(name, **{DECISION: noted}))
        decisions = client.get("/v1/decisions").json()["decisions"]
        assert [one["pod"] for one in decisions] == ["second", "first"]
        assert (decisions[0]["policy"], decisions[0]["action"], decisions[0]["node"]) == (
            "kube",
            "place",
            "n",
        )
        assert len(client.get("/v1/decisions?limit=1").json()["decisions"]) == 1


def _next(lines: Any, wanted: str) -> dict[str, Any]:
    """The data of the next event of that name."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name == wanted:
            document: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return document
    raise AssertionError(f"no event {wanted}")


def test_events_tell_of_nodes_and_the_queue_as_they_change() -> None:
    with live() as door, door.client() as client, door.client() as other:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        other.post("/api/v1/nodes", json={"metadata": {"name": "n"}, "status": status})
        with client.stream("GET", "/v1/events") as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = answer.iter_lines()
            first = _next(lines, "nodes")
            assert first["all"]
            assert [node["cpu"] for node in first["nodes"]] == [[0.0, 4.0]]
            assert _next(lines, "status")["nodes"] == {"total": 1, "ready": 1, "cordoned": 0}
            other.post("/api/v1/namespaces/default/pods", json=_pod("p"))
            assert _next(lines, "status")["queue"]["pods"][0]["name"] == "p"
            target = {"target": {"name": "n"}}
            other.post("/api/v1/namespaces/default/pods/p/binding", json=target)
            assert _next(lines, "nodes")["nodes"][0]["cpu"] == [0.5, 4.0]


def test_events_tell_of_pods_as_rows_and_of_what_went() -> None:
    with live() as door, door.client() as client, door.client() as other:
        other.post("/api/v1/namespaces/default/pods", json=_pod("first"))
        with client.stream("GET", "/v1/events?pods=true") as answer:
            lines = answer.iter_lines()
            first = _next(lines, "pods")
            assert first["all"]
            while not first["rows"]:  # nodes are told before pods are read
                first = _next(lines, "pods")
            assert [row[:2] for row in first["rows"]] == [["default", "first"]]
            other.post("/api/v1/namespaces/default/pods", json=_pod("second"))
            second = _next(lines, "pods")
            assert not second["all"] and ["default", "second"] in [row[:2] for row in second["rows"]]
            other.delete("/api/v1/namespaces/default/pods/first?gracePeriodSeconds=0")
            told = _next(lines, "pods")
            while not told["gone"]:
                told = _next(lines, "pods")
            assert told["gone"] == [["default", "first"]]
        with client.stream("GET", "/v1/events?pods=perhaps") as answer:
            assert answer.status_code == 400


def test_a_command_is_run_in_a_pod(cluster: Live) -> None:
    with cluster.client() as client:
        client.post("/api/v1/namespaces/default/pods", json=_pod("commanded"))
        path = "/v1/namespaces/default/pods/commanded/exec"
        answer = client.post(path, json={"command": ["echo", "hello"]})
        for _ in range(1_000):
            if answer.status_code == 200:
                break
            time.sleep(0.05)
            answer = client.post(path, json={"command": ["echo", "hello"]})
        told = answer.json()
        assert told["exitCode"] == 126
        assert b"simulated: 'echo hello' was not run" in base64.b64decode(told["stderr"])
        assert client.post(path, json={"command": []}).status_code == 400
        assert client.post(path, json={"command": ["x"], "stdin": "?"}).status_code == 400
        client.delete("/api/v1/namespaces/default/pods/commanded?gracePeriodSeconds=0")
