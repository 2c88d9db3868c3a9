"""A real control plane for `proreus bench kube`: etcd, kube-apiserver and kube-scheduler on loopback.

The programs are those of the folder that KUBEBUILDER_ASSETS names. Nodes are hollow: objects with a status.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.httpserver.certificate_authority import Authority
from proreus.kubeclient.client import ClientOptions, KubeClient
from proreus.kubeclient.config import ClusterConfig
from proreus.kubeclient.credentials import StaticToken
from proreus.kubeclient.errors import ApiError
from proreus.kubeclient.resources import NODES
from proreus.model.errors import UsageError, WorkError

_START_SECONDS = 120.0
_SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def program(name: str) -> str:
    """Of the control plane; a UsageError says how to get it."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = Path(folder) / name if folder else None
    if found is not None and found.exists():
        return str(found)
    elsewhere = shutil.which(name)
    if elsewhere is None:
        raise UsageError(f"{name} is not here: `make kube-assets`, then KUBEBUILDER_ASSETS=ITS_FOLDER")
    return elsewhere


@dataclass(frozen=True)
class Plane:
    """A control plane that answers."""

    folder: Path
    config: ClusterConfig
    kubeconfig: Path

    def client(self) -> KubeClient:
        """For whoever loads it."""
        return KubeClient.of(self.config, ClientOptions(answer_seconds=60.0), agent="proreus-bench")

    @contextmanager
    def kube_scheduler(self) -> Iterator[None]:
        """The real one, with no limit of its own on how often it asks."""
        port = _free_ports(1)[0]
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 10_000, "burst": 10_000},
            "healthzBindAddress": f"127.0.0.1:{port}",
            "metricsBindAddress": f"127.0.0.1:{port}",
        }
        path = self.folder / "kube-scheduler.json"
        path.write_text(json.dumps(config))
        words = [program("kube-scheduler"), f"--config={path}", "--secure-port=0"]
        with _process(words, self.folder / "kube-scheduler.log") as process:
            _wait_port(port, process)
            yield

    @contextmanager
    def proreus_scheduler(self, policy: str) -> Iterator[None]:
        """Ours, as its users start it."""
        port = _free_ports(1)[0]
        words = [
            sys.executable,
            "-m",
            "proreus",
            "kube",
            "scheduler",
            "--policy",
            policy,
            "--name",
            "proreus",
        ]
        words += ["--kubeconfig", str(self.kubeconfig), "--port", str(port), "--no-leader-elect"]
        words += ["--qps", "10000", "--quiet"]
        with _process(words, self.folder / f"proreus-{policy}.log") as process:
            _wait_port(port, process)
            yield


@contextmanager
def control_plane(folder: Path) -> Iterator[Plane]:
    """Ready when it is handed out, gone afterwards."""
    authority = Authority(folder / "tls", ("127.0.0.1", "localhost"))
    token = secrets.token_hex(16)
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{token},bench,bench,"system:masters"\n')
    with ExitStack() as stack:
        client, peer, port = _free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        words = [program("etcd"), "--data-dir", str(folder / "etcd"), "--listen-client-urls", etcd]
        words += ["--advertise-client-urls", etcd, "--listen-peer-urls", f"http://127.0.0.1:{peer}"]
        words += ["--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
        words += ["--initial-cluster", f"default=http://127.0.0.1:{peer}"]
        process = stack.enter_context(_process(words, folder / "etcd.log"))
        _wait_port(client, process)
        server = stack.enter_context(
            _process(_api_server(folder, authority, tokens, (client, port)), folder / "kube-apiserver.log")
        )
        config = ClusterConfig(
            f"https://127.0.0.1:{port}", authority.certificate.read_bytes(), credentials=StaticToken(token)
        )
        asyncio.run(_ready(config, server))
        yield Plane(folder, config, _kubeconfig(folder, config, authority.certificate, token))


def _api_server(folder: Path, authority: Authority, tokens: Path, ports: tuple[int, int]) -> list[str]:
    certificate, key = authority.credentials()
    return [
        program("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{ports[0]}",
        f"--secure-port={ports[1]}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/16",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={certificate}",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=4000",
        f"--cert-dir={folder}",
    ]


def _kubeconfig(folder: Path, config: ClusterConfig, authority: Path, token: str) -> Path:
    cluster = {"server": config.server, "certificate-authority": str(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


async def _ready(config: ClusterConfig, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    client = KubeClient.of(config)
    try:
        while True:
            try:
                await client.get_path("/api/v1/namespaces/default")
                return
            except ApiError as error:
                if process.poll() is not None or time.monotonic() > until:
                    raise WorkError(f"kube-apiserver did not start: {error}") from error
            await asyncio.sleep(0.2)
    finally:
        await client.close()


async def add_nodes(client: KubeClient, count: int) -> None:
    """Hollow ones."""
    room = asyncio.Semaphore(16)

    async def add(n: int) -> None:
        async with room:
            await client.create(NODES, _node(f"node-{n:05}"))

    await asyncio.gather(*map(add, range(count)))


def _node(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    labels = {"kubernetes.io/hostname": name}
    status = {"capacity": _SIZE, "allocatable": _SIZE, "conditions": [ready]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@contextmanager
def _process(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as file:
        process = subprocess.Popen(list(words), stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > until:
                raise WorkError(f"{process.args!r} did not start") from error
        time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
