"""Following a cluster: who ends meanwhile is known to have ended."""

from __future__ import annotations

import asyncio
import time

from proreus.kubeagents.judge.pod_lives import SeenCluster
from proreus.kubeagents.judge.recorder import record
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.fake import FakeApiServer
from tests.kube.control_plane import node
from tests.kubeagents.lived_pods import lived_pod


def test_a_pod_that_is_deleted_while_it_is_followed_has_ended() -> None:
    made: list[tuple[FakeApiServer, asyncio.AbstractEventLoop]] = []

    def client() -> KubeClient:
        server = FakeApiServer()
        server.put("nodes", node("a"))
        for name in ("stays", "goes"):
            server.put("pods", lived_pod(name, 1))
        made.append((server, asyncio.get_event_loop()))
        return KubeClient(server)

    waits: list[float] = []

    def ended(seconds: float) -> bool:
        """The first time a pod goes and another comes; the second time it ends."""
        waits.append(seconds)
        server, loop = made[0]

        def change() -> None:
            server.remove("pods", "goes", "default")
            server.put("pods", lived_pod("comes", 2))

        if len(waits) == 1:
            loop.call_soon_threadsafe(change)
        time.sleep(0.5)
        return len(waits) == 2

    seen, began = SeenCluster(), time.time()
    record(client, seen, 60.0, ended, lambda _: None)
    lives = {life.object["metadata"]["name"]: life.ended for life in seen.pods.values()}
    assert lives["stays"] is None and lives["comes"] is None
    gone = lives["goes"]
    assert gone is not None and began <= gone <= seen.last <= time.time()
    assert [one["metadata"]["name"] for one in seen.of_kind("Node")] == ["a"]


def test_a_single_look_does_not_wait() -> None:
    def client() -> KubeClient:
        server = FakeApiServer()
        server.put("nodes", node("a"))
        return KubeClient(server)

    def never(seconds: float) -> bool:
        raise AssertionError("nothing to wait for")

    seen = SeenCluster()
    record(client, seen, 0.0, never, lambda _: None)
    assert seen.of_kind("Node") and seen.last > 0
