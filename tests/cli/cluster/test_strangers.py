"""Policies from elsewhere that spin, exit, die or hold the interpreter's lock: the cluster goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.cli.cluster.clusters import Cluster, started, until
from tests.strangers import asking_beside, write_strangers

NAMES = ("Spins", "Exits", "Dies", "HoldsTheLock")
PODS = 6
QUICK_SECONDS = 5.0
"""On a machine that does much else; what the policies hold up would be held up for ever."""
ENDS_SECONDS = 30.0


def _pod(name: str, scheduler: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    return {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]}}


def _choose(client: httpx.Client, name: str, policy: str) -> None:
    body = {"policy": policy, "deadline_ms": 2000}
    answer = client.put(f"/v1/schedulers/{name}", json=body, timeout=120.0)
    assert answer.status_code < 300, answer.text


def _bound(client: httpx.Client) -> list[str]:
    pods = client.get("/api/v1/namespaces/default/pods").json()["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def test_pods_are_bound_others_are_answered_and_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir(mode=0o700)
    path = write_strangers(folder)
    with (
        started(tmp_path / "state", "--nodes", "2", "--policy-folder", str(folder)) as cluster,
        httpx.Client(base_url=cluster.ready["api"], headers=cluster.headers, timeout=60.0) as client,
    ):
        for name in NAMES:
            _choose(client, name.lower(), f"{path}:{name}")
        with asking_beside(lambda: _listed(client)) as took:
            for number in range(PODS):
                for name in NAMES:
                    pod = _pod(f"{name.lower()}-{number}", name.lower())
                    client.post("/api/v1/namespaces/default/pods", json=pod).raise_for_status()
            until(lambda: len(_bound(client)) == PODS * len(NAMES))
        assert took and max(took) < QUICK_SECONDS, max(took)
        _reported(client)
        _ends_though_one_is_being_imported(cluster, f"{folder / 'hangs.py'}:Hangs")


def _listed(client: httpx.Client) -> None:
    client.get("/api/v1/nodes").raise_for_status()


def _reported(client: httpx.Client) -> None:
    """As events of pods, and where the schedulers are listed."""

    def failed() -> set[str]:
        events = client.get("/api/v1/namespaces/default/events").json()["items"]
        return {
            event["involvedObject"]["name"].rpartition("-")[0]
            for event in events
            if event["reason"] == "PolicyFailed"
        }

    wanted = {name.lower() for name in NAMES}
    until(lambda: failed() >= wanted)
    # The others may have been tried again meanwhile, and have done well.
    exits = client.get("/v1/schedulers/exits").json()
    assert "SystemExit: 3" in exits["failing"]["policy"], exits


def _ends_though_one_is_being_imported(cluster: Cluster, policy: str) -> None:
    def hang() -> None:
        try:
            httpx.put(
                f"{cluster.ready['api']}/v1/schedulers/hangs",
                json={"policy": policy},
                headers=cluster.headers,
                timeout=60.0,
            )
        except httpx.HTTPError:
            return  # the cluster ended: nobody is left to answer

    hanging = threading.Thread(target=hang)
    hanging.start()
    time.sleep(1.0)
    began = time.monotonic()
    code, said = cluster.end()
    assert time.monotonic() - began < ENDS_SECONDS
    hanging.join(60.0)
    assert code == 0 and "Traceback" not in said, said
