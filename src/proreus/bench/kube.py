"""`proreus bench kube`: pods of a real Kubernetes API server, bound by us and by the real kube-scheduler.

One API server and etcd, hollow nodes, and one scheduler after the other on the same machine in one run: all
pods at once, from the first creation to the last binding; then pods at a steady rate, for the time from a
creation to the event that shows the node. All share the cores with the API server, etcd and the load. The
real scheduler asks without a limit of its own.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from proreus.bench.kube_plane import Plane, add_nodes, control_plane
from proreus.contract.benchmark import BenchRow, claim
from proreus.kubeclient.client import KubeClient, Selected
from proreus.kubeclient.resources import PODS
from proreus.model.errors import WorkError

_CREATORS = 16
_STEADY_RATE = 40.0
_WARM = 20
_PATIENCE = 240.0
_REAL, _REAL_AGAIN = "kube-scheduler", "kube-scheduler-again"


@dataclass(frozen=True)
class _Measured:
    rate: float
    p99_at_once: float
    p50_steady: float
    p99_steady: float


def bench_kube(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    nodes: Annotated[int, "hollow nodes"] = 1_000,
    pods: Annotated[int, "pods that are created at once"] = 3_000,
    steady: Annotated[int, "pods at a steady rate"] = 400,
) -> Iterator[BenchRow]:
    """Needs KUBEBUILDER_ASSETS and the extra `engine`; no data."""
    del data
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder)) as plane:
        tell(f"adding {nodes:,} nodes")
        asyncio.run(_add(plane, nodes))
        measured: dict[str, _Measured] = {}
        # The real one first and last: whatever a server has warmed up meanwhile, its better round counts.
        contestants: tuple[tuple[str, str, AbstractContextManager[None]], ...] = (
            (_REAL, "default-scheduler", plane.kube_scheduler()),
            ("kube", "proreus", plane.proreus_scheduler("kube")),
            ("learned", "proreus", plane.proreus_scheduler("learned")),
            (_REAL_AGAIN, "default-scheduler", plane.kube_scheduler()),
        )
        for name, scheduler, running in contestants:
            tell(f"{name}: {pods:,} pods on {nodes:,} nodes")
            with running:
                measured[name] = asyncio.run(_measure(plane, scheduler, name, (pods, steady)))
    peer = _better(measured.pop(_REAL), measured.pop(_REAL_AGAIN))
    for name, ours in measured.items():
        against = (peer.rate, "kube-scheduler")
        yield claim(f"{name}: pods bound, all at once", "pods/s", ours.rate, goal=peer.rate, peer=against)
        yield claim(
            f"{name}: p99 from creation to node, all at once",
            "ms",
            ours.p99_at_once,
            better="lower",
            peer=(peer.p99_at_once, "kube-scheduler"),
        )
        yield claim(
            f"{name}: p99 from creation to node, {_STEADY_RATE:.0f} pods/s",
            "ms",
            ours.p99_steady,
            goal=peer.p99_steady,
            better="lower",
            peer=(peer.p99_steady, "kube-scheduler"),
        )
        yield claim(
            f"{name}: median from creation to node, {_STEADY_RATE:.0f} pods/s",
            "ms",
            ours.p50_steady,
            better="lower",
            peer=(peer.p50_steady, "kube-scheduler"),
        )


def _better(first: _Measured, second: _Measured) -> _Measured:
    """The best of each."""
    return _Measured(
        max(first.rate, second.rate),
        min(first.p99_at_once, second.p99_at_once),
        min(first.p50_steady, second.p50_steady),
        min(first.p99_steady, second.p99_steady),
    )


async def _add(plane: Plane, nodes: int) -> None:
    client = plane.client()
    await add_nodes(client, nodes)
    await client.close()


async def _measure(plane: Plane, scheduler: str, name: str, sizes: tuple[int, int]) -> _Measured:
    client = plane.client()
    try:
        round_of = _Round(client, scheduler, name.replace("_", "-"))
        await round_of.run("warm", _WARM, 0.0)
        began = time.perf_counter()
        at_once = await round_of.run("flood", sizes[0], 0.0)
        seconds = max(round_of.bound.values()) - began
        await asyncio.sleep(2.0)  # events that are still to be written are not the next round's
        steady = await round_of.run("steady", sizes[1], _STEADY_RATE)
        await _clear(client)
    finally:
        await client.close()
    return _Measured(
        sizes[0] / seconds,
        1e3 * _quantile(at_once, 0.99),
        1e3 * statistics.median(steady),
        1e3 * _quantile(steady, 0.99),
    )


class _Round:
    """Creates pods and sees when each has its node."""

    def __init__(self, client: KubeClient, scheduler: str, name: str) -> None:
        self._client, self._scheduler, self._name = client, scheduler, name
        self.bound: dict[str, float] = {}

    async def run(self, what: str, count: int, rate: float) -> list[float]:
        """Seconds from the request to the event that shows the node, of each pod."""
        self.bound = {}
        names = [f"{self._name}-{what}-{n}" for n in range(count)]
        listed = await self._client.list(PODS, Selected("default"))
        watching = asyncio.create_task(self._watch(listed.version, count))
        sent: dict[str, float] = {}
        begin = time.perf_counter()
        room = asyncio.Semaphore(_CREATORS)

        async def create(n: int, name: str) -> None:
            if rate:
                await asyncio.sleep(max(0.0, begin + n / rate - time.perf_counter()))
            async with room:
                sent[name] = time.perf_counter()
                await self._client.create(PODS, _pod(name, self._scheduler))

        await asyncio.gather(*(create(n, name) for n, name in enumerate(names)))
        try:
            await asyncio.wait_for(watching, _PATIENCE)
        except TimeoutError:
            raise WorkError(f"{self._name}: {len(self.bound)} of {count} pods were bound") from None
        return [self.bound[name] - sent[name] for name in names]

    async def _watch(self, version: str, count: int) -> None:
        watch = self._client.watch(PODS, version, Selected("default"), seconds=int(_PATIENCE) + 60)
        async with aclosing(watch) as events:
            async for event in events:
                obj = event["object"]
                if event["type"] == "MODIFIED" and obj["spec"].get("nodeName"):
                    self.bound.setdefault(obj["metadata"]["name"], time.perf_counter())
                    if len(self.bound) == count:
                        return


async def _clear(client: KubeClient) -> None:
    """No pods for whoever comes next."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    await client.delete_collection(PODS, "default", body)
    while (await client.list(PODS, Selected("default"))).items:
        await asyncio.sleep(0.5)


def _pod(name: str, scheduler: str) -> dict[str, object]:
    """scheduler_perf's: 100 millicores and 500 MiB."""
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "main", "image": "pause:3.10", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "bench"}}
    return {"metadata": metadata, "spec": {"containers": [container], "schedulerName": scheduler}}


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
