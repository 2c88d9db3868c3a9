"""The official Python client's streams."""

from __future__ import annotations

import gc
import socket
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream

from tests.engine.api.exec.conftest import Talking

_PATIENCE = 30.0


# The client leaves sockets to the garbage collector, which is to find them here rather than in another test.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def core(talking: Talking) -> Any:
    settings = client.Configuration()
    settings.host = talking.door.url
    settings.no_proxy = "*"
    with client.ApiClient(settings) as connected:
        yield client.CoreV1Api(connected)
    gc.collect()


def _exec(core: Any, *command: str, **asked: Any) -> Any:
    streams: dict[str, Any] = {"stdin": False, "stdout": True, "stderr": True, "tty": False} | asked
    return stream(
        core.connect_get_namespaced_pod_exec, "answering", "default", command=list(command), **streams
    )


def test_a_command_s_output_in_one_piece(core: Any) -> None:
    assert _exec(core, "sh", "-c", "echo out; echo err >&2").splitlines() == ["out", "err"]


def test_a_command_that_is_talked_to(core: Any) -> None:
    # It waits until its line was read: the client forgets lines that come together with the end.
    script = "read word; echo got $word; read word; exit 6"
    talk = _exec(core, "sh", "-c", script, stdin=True, _preload_content=False)
    talk.write_stdin("hello\n")
    assert talk.readline_stdout(timeout=_PATIENCE) == "got hello"
    talk.write_stdin("goodbye\n")
    talk.run_forever(timeout=_PATIENCE)
    assert talk.returncode == 6
    talk.close()


def test_a_refusal_is_a_status(core: Any) -> None:
    with pytest.raises(ApiException) as refused:
        stream(core.connect_get_namespaced_pod_exec, "nobody", "default", command=["true"], stdout=True)
    assert "404 Not Found" in refused.value.reason and 'pods \\"nobody\\" not found' in refused.value.reason


def test_ports(core: Any, talking: Talking) -> None:
    forwarded = portforward(
        core.connect_get_namespaced_pod_portforward, "shouting", "default", ports=str(talking.port)
    )
    connection: socket.socket = forwarded.socket(talking.port)
    connection.settimeout(_PATIENCE)
    connection.sendall(b"hello")
    assert connection.recv(5) == b"HELLO"
    connection.close()
    assert forwarded.error(talking.port) is None
