"""A real Kubernetes control plane on loopback: etcd, kube-apiserver with RBAC, and kube-scheduler if asked.

The programs are those of the folder that KUBEBUILDER_ASSETS names; without it a test skips and says how to
get them. There is no kubelet and no controller manager: nodes are hollow (objects with a status and a Lease),
and what a controller would write (the status of a budget, say) a test writes itself.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import make_certificate
from tests.engine.store.etcd_servers import Cluster, etcd_cluster, free_ports
from tests.kube.assets import HOW

Object = dict[str, Any]
ADMIN = "admin"
_READY_SECONDS = 90.0
_WRITERS = 8
NODE_SIZE = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def program(name: str) -> str:
    """The path of a program of the control plane; the test is skipped where there is none."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        pytest.skip(f"needs a real Kubernetes control plane: {HOW}")
    found = Path(folder) / name
    if not found.exists():
        pytest.skip(f"needs {name} in KUBEBUILDER_ASSETS: {HOW}")
    return str(found)


@dataclass(frozen=True)
class User:
    """Whoever asks with a token."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """As the token file has it."""
        return "token-" + self.name.replace(":", "-")


def service_account(namespace: str, name: str) -> User:
    """The user that a Pod with this service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


@dataclass
class ControlPlane:
    """One API server over one etcd; it can be killed and started again."""

    folder: Path
    etcd: Cluster
    port: int
    users: dict[str, User]
    certificate: Path
    key: Path
    flags: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    schedulers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _idle: deque[http.client.HTTPSConnection] = field(default_factory=deque)
    """Connections that nobody uses just now."""

    @property
    def server(self) -> str:
        """Where it is."""
        return f"https://127.0.0.1:{self.port}"

    # The process.

    def start(self) -> None:
        """Start the API server and wait until it is ready."""
        words = [
            program("kube-apiserver"),
            f"--etcd-servers=http://{self.etcd.endpoints}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.key}",
            f"--client-ca-file={self.certificate}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.key}",
            f"--service-account-key-file={self.certificate}",
            # The first wants a controller that makes tokens, the second one that takes its taint off again.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--cert-dir={self.folder}",
            *self.flags,
        ]
        with (self.folder / "kube-apiserver.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until /readyz says so and the first namespaces are there."""

        def ready() -> bool:
            assert self.process is not None and self.process.poll() is None, self.log()
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.ask("GET", "/readyz")[0] == 200 and self.exists("/api/v1/namespaces/default")
            return False

        wait_for(ready, _READY_SECONDS, "the API server is not ready")

    def kill(self) -> None:
        """As a power cut does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        self.hang_up()
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def log(self, name: str = "kube-apiserver") -> str:
        """The end of what a program said."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    # Who asks.

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig of one of the users."""
        path = self.folder / f"kubeconfig-{user.replace(':', '-')}"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "clusters": [
                        {
                            "name": "test",
                            "cluster": {
                                "server": self.server,
                                "certificate-authority": str(self.certificate),
                            },
                        }
                    ],
                    "users": [{"name": user, "user": {"token": self.users[user].token}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
                }
            )
        )
        return path

    def kubectl(self, *words: str, user: str = ADMIN, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What kubectl says."""
        path = self.kubeconfig(user)
        return subprocess.run(
            [program("kubectl"), "--kubeconfig", str(path), *words],
            check=check,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(self.folder)},
        )

    # Objects.

    def ask(
        self, method: str, path: str, body: Object | None = None, user: str = ADMIN, media: str = ""
    ) -> tuple[int, Any]:
        """One request; (HTTP code, the answer)."""
        connection = self._connection()
        kind = media or "application/json"
        head = {"Authorization": f"Bearer {self.users[user].token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, head)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        self._idle.append(connection)
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content.decode(errors="replace")

    def exists(self, path: str) -> bool:
        """Whether there is such an object."""
        return self.ask("GET", path)[0] == 200

    def get(self, path: str) -> Any:
        """An object or a list; an AssertionError where it cannot be had."""
        code, answer = self.ask("GET", path)
        assert code == 200, f"{path}: {code} {answer}"
        return answer

    def create(self, path: str, body: Object) -> Any:
        """A new object in the collection of that path."""
        code, answer = self.ask("POST", path, body)
        assert code in (200, 201), f"{path}: {code} {answer}"
        return answer

    def patch(self, path: str, body: Object) -> Any:
        """A merge patch."""
        code, answer = self.ask("PATCH", path, body, media="application/merge-patch+json")
        assert code == 200, f"{path}: {code} {answer}"
        return answer

    def delete(self, path: str) -> None:
        """An object, without grace."""
        code, answer = self.ask("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
        assert code in (200, 202, 404), f"{path}: {code} {answer}"

    def create_many(self, path: str, bodies: Sequence[Object]) -> None:
        """Many new objects, several at once, in no particular order."""
        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(lambda body: self.create(path, body), bodies))

    def pods(self, namespace: str = "") -> list[Object]:
        """All pods, or those of a namespace."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        return list(self.get(path)["items"])

    def add_nodes(self, nodes: Sequence[Object]) -> None:
        """Hollow nodes, each with its Lease."""
        self.create_many("/api/v1/nodes", nodes)
        leases = [_lease(node["metadata"]["name"]) for node in nodes]
        self.create_many("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", leases)

    def _connection(self) -> http.client.HTTPSConnection:
        """One that nobody else uses."""
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=trusted)

    def hang_up(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()

    # The real scheduler.

    def start_scheduler(
        self, config: Object | None = None, user: str = ADMIN, name: str = "kube-scheduler"
    ) -> None:
        """kube-scheduler with that configuration; returns when it is healthy."""
        (port,) = free_ports(1)
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig(user)), "qps": 1000, "burst": 2000},
            "healthzBindAddress": f"127.0.0.1:{port}",
            "metricsBindAddress": f"127.0.0.1:{port}",
            **(config or {}),
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(whole))
        with (self.folder / f"{name}.log").open("ab") as log:
            words = [program("kube-scheduler"), f"--config={path}", "--secure-port=0", "-v=1"]
            process = subprocess.Popen(words, stdout=log, stderr=log)
        self.schedulers.append(process)

        def healthy() -> bool:
            assert process.poll() is None, self.log(name)
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{port}/healthz"
                with urllib.request.urlopen(url, timeout=2) as answer:
                    return bool(answer.status == 200)
            return False

        wait_for(healthy, _READY_SECONDS, f"{name} is not healthy")

    def stop_schedulers(self) -> None:
        """All that were started."""
        for process in self.schedulers:
            process.kill()
            process.wait()
        self.schedulers.clear()


@contextlib.contextmanager
def control_plane(
    folder: Path, users: Sequence[User] = (), flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """A control plane that is ready, gone afterwards; users: who may ask besides the administrator."""
    program("kube-apiserver")
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = make_certificate(folder)
    known = {user.name: user for user in (User(ADMIN, ("system:masters",)), *users)}
    lines = [
        f"{user.token},{user.name},{user.name}" + (f',"{",".join(user.groups)}"' if user.groups else "")
        for user in known.values()
    ]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    with etcd_cluster(folder / "etcd") as etcd:
        (port,) = free_ports(1)
        plane = ControlPlane(folder, etcd, port, known, certificate, key, tuple(flags))
        try:
            plane.start()
            yield plane
        finally:
            plane.stop_schedulers()
            plane.kill()


def node(name: str, size: Mapping[str, str] | None = None, **more: Any) -> Object:
    """A hollow node that is ready; more: parts of its spec, and `labels`."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **more.pop("labels", {})}
    amounts = {**NODE_SIZE, **(size or {})}
    now = _now()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "hollow",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(
    name: str, requests: Mapping[str, str] | None = None, namespace: str = "default", **more: Any
) -> Object:
    """A pod of one container; more: parts of its spec, and `labels` and `annotations`."""
    metadata: Object = {"name": name, "namespace": namespace}
    for part in ("labels", "annotations"):
        if part in more:
            metadata[part] = more.pop(part)
    asked = {"cpu": "100m", "memory": "128Mi"} if requests is None else dict(requests)
    container = {"name": "main", "image": "pause:3.9", "resources": {"requests": asked}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **more},
    }


def wait_for(done: Callable[[], bool], seconds: float, otherwise: str, pause: float = 0.1) -> None:
    """Until something is so; an AssertionError where it is not in time."""
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, otherwise
        time.sleep(pause)


def _lease(name: str) -> Object:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now(micro=True)}
    metadata = {"name": name, "namespace": "kube-node-lease"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _now(*, micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S" + (".%f" if micro else "")) + "Z"
