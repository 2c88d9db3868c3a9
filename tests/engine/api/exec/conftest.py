"""A cluster whose pods are processes of this machine, and pods in it to talk to."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.api.conftest import PROGRAMS, Kubectl
from tests.engine.api.live import Live, as_up, live

_SHOUTING = """
import socketserver, sys
class Shouting(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data.upper())
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Shouting).serve_forever()
"""
_ANSWERING = 'while read word; do echo "got $word"; echo "err $word" >&2; done'


@dataclass(frozen=True)
class Talking:
    """The cluster and its pods."""

    door: Live
    port: int
    """Where the pod `shouting` listens, and answers in capitals."""


@pytest.fixture(scope="package", params=["here", "elsewhere"])
def talking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """Pods `answering`, which repeats what it reads, and `shouting`, which does so on a port.

    Run by the process of the API, or as if by another.
    """
    folder = tmp_path_factory.mktemp("streams") / "node"
    options = as_up(tmp_path_factory.mktemp("tls"))
    with live(options, agents=True, processes=folder, elsewhere=request.param == "elsewhere") as door:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        with door.client() as client:
            run_pod(client, "answering", ["sh", "-c", _ANSWERING], stdin=True)
            run_pod(client, "shouting", [sys.executable, "-c", _SHOUTING, str(port)])
            run_pod(client, "nowhere", ["true"], nodeName="", schedulerName="nobody")
        _until_open(port)
        yield Talking(door, port)


def run_pod(client: httpx.Client, name: str, command: list[str], **fields: Any) -> None:
    """A pod of one container; until it runs, if it is to."""
    container: dict[str, Any] = {"name": "main", "image": "none", "command": command}
    spec: dict[str, Any] = {key: fields.pop(key) for key in ("nodeName", "schedulerName") if key in fields}
    body = {"metadata": {"name": name}, "spec": {"containers": [{**container, **fields}], **spec}}
    path = "/api/v1/namespaces/default/pods"
    assert client.post(path, json=body).status_code == 201
    if spec:
        return
    end = time.monotonic() + 30
    while client.get(f"{path}/{name}").json()["status"]["phase"] != "Running":
        assert time.monotonic() < end
        time.sleep(0.02)


def _until_open(port: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="package", params=PROGRAMS, ids=lambda one: one or "none")
def kubectl(
    request: pytest.FixtureRequest, talking: Talking, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    if not request.param:
        pytest.skip("there is no kubectl: install Debian's kubernetes-client, or name one by PROREUS_KUBECTL")
    return Kubectl(request.param, tmp_path_factory.mktemp("kubectl"), talking.door)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Which processes of a pod find as this test does."""
    return tmp_path
