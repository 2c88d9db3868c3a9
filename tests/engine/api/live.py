"""A small cluster behind its API, in a thread: two simulated nodes, task agents, and a simple binder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import httpx

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.controllers.gc.controller import FOLLOWED as SWEPT
from proreus.engine.controllers.gc.controller import GcController
from proreus.engine.controllers.workloads.controller import FOLLOWED, TaskHost
from proreus.engine.kubelet import heartbeats
from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.kubelet.runtime_factory import open_runtime
from proreus.engine.node_host import MachineNode
from proreus.engine.node_server import open_node_door
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Capacity, NodeImages, PodRuntime
from proreus.engine.runtimes.simulated.draws import Habits
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.store.memory import MemoryStore
from proreus.engine.watch.informer import Informer
from proreus.httpserver.certificate_authority import Authority
from proreus.policies.policy_folders import PolicyFolders

_NODES = ("node-1", "node-2")
_AMOUNTS = {"cpu": "8", "memory": "16Gi", "pods": "110"}
_RENEW_SECONDS = 0.8
"""Nodes are measured so often."""
_QUICK = Habits(start_latency=0.02, stop_latency=0.02, duration=0.05, start_spread=0.0, duration_spread=0.0)


@dataclass
class Live:
    """A door that is open."""

    port: int
    registry: Registry
    loop: asyncio.AbstractEventLoop
    options: ApiOptions
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def over_tls(self) -> str:
        """Its address for those who know its authority."""
        return f"https://127.0.0.1:{self.port}"

    def client(self, **headers: str) -> httpx.Client:
        """Talks to it."""
        return httpx.Client(base_url=self.url, headers=headers, timeout=60.0)


def as_up(folder: Path) -> ApiOptions:
    """With TLS by an authority of its own, and without it for this machine, as `proreus up` has it."""
    return ApiOptions(authority=Authority(folder, ("localhost", "127.0.0.1", "::1")), plain_here=True)


@contextmanager
def live(
    options: ApiOptions | None = None,
    *,
    agents: bool = False,
    images: NodeImages | None = None,
    processes: Path | None = None,
    elsewhere: bool = False,
    folders: PolicyFolders | None = None,
) -> Iterator[Live]:
    """An API over a store in memory; with agents, pods run: as processes where these have a folder, and where
    it is elsewhere, as if another process ran them, which the API has to ask."""
    api_options = options or ApiOptions()
    started: list[Live] = []
    ready, failures = threading.Event(), list[BaseException]()
    ending: list[asyncio.Event] = []

    async def main() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        ending.append(asyncio.Event())
        real = None if processes is None else await open_runtime("process", MachineOptions(processes))
        tasks, host = _agents(registry, real) if agents else ([], None)
        around = ApiDependencies(
            logs=host,
            commands=host,
            images=images,
            trends=host,
            folders=folders or PolicyFolders(),
            simulated=processes is None,
        )
        stack = AsyncExitStack()
        if elsewhere:
            assert processes is not None
            node = MachineNode(_NODES[0], MachineOptions(processes))
            await open_node_door(registry, node, 0, around, stack)
            around = ApiDependencies(relay=NodeRelay(registry, frozenset()))
        server = ApiServer(create_app(registry, api_options, around), api_options)
        await server.start()
        started.append(Live(server.port, registry, asyncio.get_running_loop(), api_options))
        ready.set()
        await ending[0].wait()
        await server.stop()
        await stack.aclose()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if real is not None:
            for report in real.adopt([]):
                real.remove(report.uid)
            await real.settled()
            await real.close()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="api under test")
    often = patch.object(heartbeats, "RENEW_SECONDS", _RENEW_SECONDS)
    often.start()
    thread.start()
    try:
        assert ready.wait(60)
        if failures:
            raise failures[0]
        yield started[0]
    finally:
        if started:
            started[0].loop.call_soon_threadsafe(ending[0].set)
        thread.join(20)
        often.stop()
    assert not failures, failures


def _agents(registry: Registry, real: PodRuntime | None) -> tuple[list[asyncio.Task[None]], ResourceHost]:
    timers = LoopTimers()
    informers = {kind: Informer(registry, kind) for kind in {*FOLLOWED, *SWEPT, NODE, POD}}
    capacity = Capacity(_AMOUNTS, _AMOUNTS)
    housed = [
        Housed(NodeSpec(name, f"10.0.0.{place}"), real or SimulatedRuntime(capacity, timers, _QUICK))
        for place, name in enumerate(_NODES[:1] if real else _NODES, start=1)
    ]
    host = ResourceHost(registry, timers, housed, informers)
    task_host = TaskHost(registry, timers, informers)
    housekeeping = GcController(registry, timers, informers)
    binder = _Binder(registry, informers[POD], informers[NODE])
    runs = [*(informer.run() for informer in informers.values())]
    runs += [host.run(), task_host.run(), housekeeping.run(), binder.run()]
    return [asyncio.ensure_future(one) for one in runs], host


class _Binder:
    """Binds every pod to the next node that takes pods."""

    def __init__(self, registry: Registry, pods: Informer, nodes: Informer) -> None:
        self._registry, self._pods, self._nodes = registry, pods, nodes
        self._turn = 0

    async def run(self) -> None:
        """Again and again."""
        while True:
            await asyncio.sleep(0.02)
            for pod in tuple(self._pods.objects.values()):
                await self._bind(pod["metadata"]["namespace"], pod["metadata"]["name"], pod)

    async def _bind(self, namespace: str, name: str, pod: dict[str, object]) -> None:
        spec = pod["spec"]
        assert isinstance(spec, dict)
        open_nodes = sorted(
            node["metadata"]["name"]
            for node in self._nodes.objects.values()
            if not node.get("spec", {}).get("unschedulable")
        )
        if spec.get("nodeName") or spec.get("schedulerName") == "nobody" or not open_nodes:
            return
        self._turn += 1
        with suppress(StatusError):
            await self._registry.bind(namespace, name, open_nodes[self._turn % len(open_nodes)])
