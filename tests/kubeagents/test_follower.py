"""A thread that follows: what it is asked has an end, and so has it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.follower import Follower
from proreus.kubeclient.client import ClientOptions, KubeClient, RetryPolicy
from proreus.kubeclient.errors import NotFound, Unreachable
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import NODES
from proreus.kubeclient.transport import Response
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


def _refusal_of(server: FakeApiServer, hear: Callable[[Change], None]) -> str:
    def client() -> KubeClient:
        made = KubeClient(server, ClientOptions(retry=RetryPolicy(seconds=0.2, first=0.01, longest=0.02)))
        made.server = "https://10.0.0.1:6443"
        return made

    follower = Follower(client, hear)
    follower.start()
    try:
        with pytest.raises(WorkError) as told:
            follower.wait_synced(10.0)
    finally:
        follower.stop()
    return str(told.value)


def test_a_refused_token_and_a_server_that_is_away_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    status = {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized", "code": 401}
    refused = Response(401, json.dumps(status).encode(), {"content-type": "application/json"})
    server = FakeApiServer()
    server.answer = lambda request: refused
    told = _refusal_of(server, ClusterView().hear)
    assert told == "the cluster could not be listed: https://10.0.0.1:6443 answers 401: Unauthorized"

    server = FakeApiServer()
    server.down = True
    told = _refusal_of(server, ClusterView().hear)
    assert told == "the cluster could not be listed: the server cannot be reached"
    assert not caplog.records, "not once more for every kind"


def test_what_goes_wrong_while_it_is_told_is_named_and_not_its_group() -> None:
    def hear(change: Change) -> None:
        raise ValueError(f"{change.object['metadata']['name']} cannot be read")

    server = FakeApiServer()
    server.put("nodes", node("a"))
    assert _refusal_of(server, hear) == "the cluster could not be listed: a cannot be read"


def test_a_kind_that_may_not_be_read_is_told_within_seconds() -> None:
    status = {"kind": "Status", "reason": "Forbidden", "message": "no rights here", "code": 403}
    refused = Response(403, json.dumps(status).encode(), {"content-type": "application/json"})
    server = FakeApiServer()
    server.put("nodes", node("a"))
    server.answer = lambda request: refused if "/statefulsets" in request.target else None
    began = time.monotonic()
    assert "no rights here" in _refusal_of(server, ClusterView().hear)
    assert time.monotonic() - began < 8.0, "well before the ten seconds that the first list has"
