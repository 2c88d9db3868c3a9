"""The load on an engine: pods created over HTTP by many clients, and a watch that sees when each was bound.

Bodies are made beforehand and answers only measured out, as in `load`; the watch is read by a thread of its
own. Pods come as fast as the clients get answers, or evenly at a given rate.

Run as a process of its own: `python -m proreus.bench.engine_load` reads a plan and prints a result, as JSON.
"""

from __future__ import annotations

import http.client
import json
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from proreus.bench.load import Http1Exchange, LoadPlan

NAMESPACE = "default"
_NAME = re.compile(rb'"name":"(bench-[a-z]+-\d+)"')
_RECEIVE = 1 << 18


@dataclass(frozen=True)
class PodPlan:
    """Which pods, how fast, and to whom."""

    host: str
    port: int
    prefix: str
    pods: int
    clients: int = 16
    rate: float = 0.0
    """Pods per second; 0: as fast as answers come."""
    patience: float = 120.0
    """Seconds after the last creation in which all must be bound."""
    token: str = ""
    """That the engine wants to be sent."""


@dataclass(frozen=True)
class PodResult:
    created: int
    failures: int
    bound: int
    seconds: float
    """From the first request to the last pod bound."""
    creating: float
    """From the first request to the last answer."""
    p50: float
    p99: float
    """From the request to the event that shows the node."""
    generator_share: float
    """Of one core."""


def pod_body(name: str) -> bytes:
    """A pod as kubectl would send it: scheduler_perf's, 100 millicores and 500 MiB."""
    container = {
        "name": "main",
        "image": "registry.local/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "spec": {"containers": [container]},
    }
    return json.dumps(pod).encode()


class _Watch(threading.Thread):
    """When each pod was first seen with a node."""

    def __init__(self, plan: PodPlan) -> None:
        super().__init__(daemon=True)
        self._prefix = plan.prefix.encode()
        self.bound: dict[str, float] = {}
        self.all = threading.Event()
        self._wanted = plan.pods
        self._headers = {"authorization": f"Bearer {plan.token}"} if plan.token else {}
        self._connection = http.client.HTTPConnection(plan.host, plan.port, timeout=None)
        listing = self._ask(f"/api/v1/namespaces/{NAMESPACE}/pods?limit=1").read()
        version = json.loads(listing)["metadata"]["resourceVersion"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?watch=true&resourceVersion={version}"
        self._stream = self._ask(path)

    def _ask(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"{path}: {answer.status} {answer.read(300)!r}")
        return answer

    def run(self) -> None:
        """Until all are bound or the stream ends."""
        while line := self._stream.readline():
            match = _NAME.search(line)
            if match is None or b'"nodeName":"' not in line or not match[1].startswith(self._prefix):
                continue
            self.bound.setdefault(match[1].decode(), time.perf_counter())
            if len(self.bound) == self._wanted:
                self.all.set()
                return


class _Client:
    """One connection and the name of the pod under way."""

    def __init__(self, plan: PodPlan) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.exchange = Http1Exchange(LoadPlan(plan.host, plan.port, path, (), token=plan.token))
        self.socket = self._connected(plan)

    @staticmethod
    def _connected(plan: PodPlan) -> socket.socket:
        opened = socket.create_connection((plan.host, plan.port), timeout=30.0)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def connect(self, plan: PodPlan) -> None:
        """Anew."""
        self.socket.close()
        self.socket = self._connected(plan)

    def send(self, name: str) -> None:
        self.socket.sendall(self.exchange.request(pod_body(name)))


def create_pods(plan: PodPlan) -> PodResult:
    """All pods of the plan, and when they were bound."""
    watch = _Watch(plan)
    watch.start()
    names = iter([f"{plan.prefix}-{number}" for number in range(plan.pods)])
    sent: dict[str, float] = {}
    began, cpu = time.perf_counter(), time.process_time()
    created, failures = _send_all(plan, names, sent)
    ended = time.perf_counter()
    watch.all.wait(plan.patience)
    took = [watch.bound[name] - sent[name] for name in watch.bound if name in sent]
    took.sort()
    last = max(watch.bound.values(), default=time.perf_counter())
    return PodResult(
        created=created,
        failures=failures,
        bound=len(took),
        seconds=last - began,
        creating=ended - began,
        p50=took[len(took) // 2] if took else float("inf"),
        p99=took[int(len(took) * 0.99)] if took else float("inf"),
        generator_share=(time.process_time() - cpu) / (last - began),
    )


def _send_all(plan: PodPlan, names: Iterator[str], sent: dict[str, float]) -> tuple[int, int]:
    """Answers that created a pod, and others."""
    created = failures = 0
    idle = [_Client(plan) for _ in range(min(plan.clients, plan.pods))]
    clients = list(idle)
    due = time.perf_counter()
    pending = next(names, None)
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        while pending is not None or len(idle) < len(clients):
            while pending is not None and idle and time.perf_counter() >= due:
                sent[pending] = time.perf_counter()
                idle.pop().send(pending)
                due = due + 1.0 / plan.rate if plan.rate else 0.0
                pending = next(names, None)
            wait = max(0.0, due - time.perf_counter()) if pending is not None and idle else 0.05
            for key, _ in selector.select(wait):
                client = key.data
                data = client.socket.recv(_RECEIVE)
                if not data:
                    if client not in idle:
                        raise ConnectionError("the engine hung up")
                    selector.unregister(client.socket)
                    client.connect(
                        plan
                    )  # it had nothing to say for a while: the engine keeps no such connection
                    selector.register(client.socket, selectors.EVENT_READ, client)
                    continue
                done, _reply = client.exchange.feed(data)
                if done:
                    created, failures = created + (done > 0), failures + (done < 0)
                    idle.append(client)
    for client in clients:
        client.socket.close()
    return created, failures


def main() -> None:
    """A plan on standard input, a result on standard output."""
    result = create_pods(PodPlan(**json.load(sys.stdin)))
    sys.stdout.write(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
