"""A thread that follows: what it is asked has an end, and so has it."""

from __future__ import annotations

import asyncio

import pytest

from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.follower import Follower
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.errors import NotFound, Unreachable
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.resources import NODES
from proreus.model.errors import WorkError
from tests.kube.control_plane import node


def _client() -> KubeClient:
    server = FakeApiServer()
    server.put("nodes", node("a"))
    return KubeClient(server)


def test_what_is_asked_is_answered_refused_or_ended() -> None:
    view = ClusterView()
    follower = Follower(_client, view.hear)
    follower.start()
    try:
        follower.wait_synced(30.0)
        assert list(view.cluster.node_names()) == ["a"]
        assert follower.call(lambda client: client.get(NODES, "a"))["metadata"]["name"] == "a"
        with pytest.raises(NotFound):
            follower.call(lambda client: client.get(NODES, "b"))

        async def hangs(client: KubeClient) -> None:
            await asyncio.sleep(60)

        with pytest.raises(Unreachable, match="no answer"):
            follower.call(hangs, seconds=0.1)
    finally:
        follower.stop()


def test_who_was_never_started_stops_at_once_and_who_cannot_start_says_why() -> None:
    Follower(_client, ClusterView().hear).stop()

    def broken() -> KubeClient:
        raise WorkError("no such context")

    follower = Follower(broken, ClusterView().hear)
    follower.start()
    with pytest.raises(WorkError, match="no such context"):
        follower.wait_synced(10.0)
    follower.stop()
