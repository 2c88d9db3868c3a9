"""The kubeconfig that `proreus up` writes, in the hands of kubectl and of the official Python client."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from kubernetes import client, config, watch

from tests.cli.cluster.clusters import Cluster, started, until


class Kubectl:
    """The command, with the kubeconfig and nothing else."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._environment = {
            "HOME": str(home),
            "KUBECONFIG": cluster.ready["kubeconfig"],
            "PATH": os.environ["PATH"],
        }

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ("kubectl", *words),
            capture_output=True,
            timeout=60,
            env=self._environment,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            ("kubectl", *words), stdout=subprocess.PIPE, env=self._environment, text=True, bufsize=1
        )


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl: install Debian's kubernetes-client")
    return Kubectl(cluster, tmp_path)


def test_paths_of_the_api_are_paths_of_the_address(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    assert kubectl("get", "--raw", "/livez") == "ok"
    assert '"NodeList"' in kubectl("get", "--raw", "/api/v1/nodes")
    assert '"schedulers"' in kubectl("get", "--raw", "/v1/schedulers")
    output = kubectl("cluster-info")
    assert cluster.ready["api"].replace("http:", "https:") in output and cluster.token not in output
    assert "owner" in kubectl("auth", "whoami") and "yes" in kubectl("auth", "can-i", "create", "pods")
    paths = [str(path) for path in tmp_path.rglob("*")]
    assert paths and not any(cluster.token in path for path in paths), "kubectl names folders after addresses"


def test_a_proxy_hands_on_what_it_is_asked(kubectl: Kubectl) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    proxy = kubectl.start("proxy", f"--port={port}")
    try:
        assert proxy.stdout is not None and "Starting to serve" in proxy.stdout.readline()
        answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/nodes")
        assert [node["metadata"]["name"] for node in answer.json()["items"]] == ["node-1", "node-2", "node-3"]
    finally:
        proxy.terminate()
        proxy.communicate(timeout=30)


def test_a_watch_and_followed_logs_go_on(kubectl: Kubectl, namespace: str) -> None:
    seen = kubectl.start("get", "pods", "-n", namespace, "-w", "-o", "name")
    kubectl("run", "web", "--image=i", "-n", namespace)
    kubectl("wait", "pod/web", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
    followed = kubectl.start("logs", "-f", "web", "-n", namespace)
    try:
        for started_command, expected in ((seen, "pod/web"), (followed, "starting i")):
            assert started_command.stdout is not None and expected in started_command.stdout.readline()
    finally:
        for started_command in (seen, followed):
            started_command.terminate()
            started_command.communicate(timeout=30)


def test_the_official_python_client_is_let_in(cluster: Cluster, namespace: str) -> None:
    with config.new_client_from_config(cluster.ready["kubeconfig"]) as connected:
        core = client.CoreV1Api(connected)
        assert len(core.list_node().items) == 3
        container = client.V1Container(name="c", image="i")
        pod = client.V1Pod(
            metadata=client.V1ObjectMeta(name="python"), spec=client.V1PodSpec(containers=[container])
        )
        core.create_namespaced_pod(namespace, pod)
        for event in watch.Watch().stream(core.list_namespaced_pod, namespace, timeout_seconds=60):
            if event["object"].status.phase == "Running":
                break
        else:
            pytest.fail("it was not seen to run")


def test_a_start_again_keeps_the_authority_and_the_tokens(tmp_path: Path) -> None:
    kept = ("tokens", "tls/ca.crt", "tls/ca.key", "tls/server.pem")
    folder = tmp_path / "state"
    with started(folder, "--nodes", "1") as first:
        before = [(folder / name).read_bytes() for name in kept]
        first.end()
    with started(folder, "--nodes", "1") as second:
        assert [(folder / name).read_bytes() for name in kept] == before
        until(lambda: httpx.get(f"{second.ready['api']}/api", headers=second.headers).status_code == 200)
