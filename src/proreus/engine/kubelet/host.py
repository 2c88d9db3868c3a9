"""A host of resource agents: one watch of pods for all its nodes, one stream of writes back.

A thousand simulated nodes live in one of these as well as the one node of a real machine. Pods are routed by
the node that they are bound to; what the agents order of their runtimes is done at once, what they have to
tell is gathered for a moment and written together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from proreus.engine.kubelet.agent import ResourceAgent
from proreus.engine.kubelet.heartbeats import Heartbeats, Housed
from proreus.engine.kubelet.instructions import (
    FinishDeletion,
    ForgetPod,
    Order,
    StartContainer,
    StartPod,
    StopContainer,
    StopPod,
    WakeAt,
    WriteStatus,
)
from proreus.engine.kubelet.node_lease import NodeTaken
from proreus.engine.kubelet.node_status import looks_well
from proreus.engine.kubelet.status_writer import StatusWriter
from proreus.engine.kubelet.usage.reporter import UsageReporter
from proreus.engine.objects.errors import Unserviceable
from proreus.engine.objects.event_recorder import EventLimiter, EventRecorder, RecordEvent
from proreus.engine.objects.kinds import NODE, POD, Kind
from proreus.engine.objects.metadata import Object, name_of, uid_of
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import Cancellable, Moment, Timers
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    CommandResult,
    CommandWanted,
    ContainerSession,
    LogWanted,
    PodReport,
    RuntimeRefused,
)
from proreus.engine.runtimes.stats import TOPIC, Trend
from proreus.engine.watch.informer import Informer
from proreus.engine.wire.duplex import Connection

FOLLOWED = (POD, NODE)
_RETRY_SECONDS = 1.0


class ResourceHost:
    """See the module; `informers` follow at least `FOLLOWED`, and are run by the host's process."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        nodes: Iterable[Housed],
        informers: Mapping[Kind, Informer],
        process: str = "",
    ) -> None:
        """process: in whose name its nodes are claimed; "": in nobody's."""
        pods, seen = informers[POD], informers[NODE]
        self._timers = timers
        self._nodes: dict[str, Housed] = {node.spec.name: node for node in nodes}
        self._agents = {
            name: ResourceAgent(name, node.runtime.capacity(), node.spec.address)
            for name, node in self._nodes.items()
        }
        self._home: dict[str, str] = {}
        """The node of each pod that was ever begun here."""
        self._alarms: dict[str, tuple[float, Cancellable]] = {}
        self._claimed = False
        runtimes = {name: node.runtime for name, node in self._nodes.items()}
        self._measuring = UsageReporter(runtimes, registry.notes(TOPIC))
        self._heartbeats = Heartbeats(
            registry, timers, self._nodes, lambda name: ("", name) in seen.objects, self._measuring, process
        )
        self._writing = StatusWriter(
            registry, EventRecorder(registry, "proreus-resource-agent", timers.wall, EventLimiter()), timers
        )
        self._pods, self._begun = pods, False
        self._unwell: set[str] = set()
        self._unwell_seen = asyncio.Event()
        pods.subscribe(self._pod_changed)
        seen.subscribe(self._node_changed)
        for name, one in self._nodes.items():
            one.runtime.subscribe(self._hearing(name))

    async def run(self) -> None:
        """Register, adopt what runs, then serve until cancelled."""
        while not await self._registered():
            await asyncio.sleep(_RETRY_SECONDS)
        await self._pods.synced.wait()
        self._begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._heartbeats.run())
                group.create_task(self._writing.run())
                group.create_task(self._nurse())
        except ExceptionGroup as failed:
            taken = next(
                (exception for exception in failed.exceptions if isinstance(exception, NodeTaken)), None
            )
            raise failed if taken is None else taken from None

    async def claim(self) -> None:
        """Its nodes are this process' from now on; raises `NodeTaken`."""
        await self._heartbeats.claim()
        self._claimed = True

    async def release(self) -> None:
        """They are whoever's that comes next."""
        await self._heartbeats.release()

    async def left_behind(self) -> list[str]:
        """Nodes that this process ran before, and nobody runs now."""
        return await self._heartbeats.left_behind()

    async def _registered(self) -> bool:
        try:
            if not self._claimed:
                await self.claim()
            await self._heartbeats.register()
        except Unserviceable:
            return False
        return True

    def agent(self, node: str) -> ResourceAgent:
        """The agent of one of its nodes."""
        return self._agents[node]

    def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """See `PodLogs`; of whichever node runs the pod."""
        return self._housed(uid).runtime.logs(uid, wanted)

    async def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
    ) -> CommandResult:
        return await self._housed(uid).runtime.execute(uid, container, command, stdin, timeout)

    async def begin(self, uid: str, wanted: CommandWanted) -> ContainerSession:
        return await self._housed(uid).runtime.begin(uid, wanted)

    async def attach(self, uid: str, wanted: AttachWanted) -> ContainerSession:
        return await self._housed(uid).runtime.attach(uid, wanted)

    async def connect(self, uid: str, port: int) -> Connection:
        return await self._housed(uid).runtime.connect(uid, port)

    def node_trend(self, name: str, *, day: bool = False) -> Trend:
        return self._measuring.node_trend(name, day=day)

    def pod_trend(self, uid: str, *, day: bool = False) -> Trend:
        return self._measuring.pod_trend(self._home.get(uid, ""), uid, day=day)

    def _housed(self, uid: str) -> Housed:
        if uid not in self._home:
            raise RuntimeRefused("no node of this host runs that pod")
        return self._nodes[self._home[uid]]

    def _begin(self) -> None:
        """What the API has on each node meets what its runtime runs."""
        here: dict[str, list[Object]] = {name: [] for name in self._nodes}
        for pod in self._pods.objects.values():
            node = pod["spec"].get("nodeName")
            if node in here:
                here[node].append(pod)
                self._home[uid_of(pod)] = node
        now = self._now()
        self._begun = True
        for name, pods in here.items():
            reports = self._nodes[name].runtime.adopt(pods)
            self._do(name, self._agents[name].begin(pods, reports, now))

    def _pod_changed(self, event: ObjectEvent) -> None:
        node = event.object["spec"].get("nodeName")
        agent = self._agents.get(node) if node else None
        if agent is None or not self._begun:
            return
        uid = uid_of(event.object)
        if event.type == "DELETED":
            self._do(agent.node, agent.gone(uid, self._now()))
            if uid not in agent.uids():
                self._home.pop(uid, None)
        else:
            self._home[uid] = agent.node
            if self._writing.is_echo(event):
                agent.heard(event.object)
            else:
                self._do(agent.node, agent.pod(event.object, self._now()))

    def _node_changed(self, event: ObjectEvent) -> None:
        """A node of ours that the API shows wrongly is put right; one that was deleted stays away."""
        name = name_of(event.object)
        if name in self._agents and event.type != "DELETED":
            self._agents[name].offers(event.object)
        if (
            name in self._nodes
            and event.type != "DELETED"
            and looks_well(event.object) == self._troubled(name)
        ):
            self.refresh(name)

    def _troubled(self, node: str) -> bool:
        return bool(self._nodes[node].runtime.trouble())

    def refresh(self, node: str) -> None:
        """Have the API show a node of ours as it is now."""
        self._unwell.add(node)
        self._unwell_seen.set()

    async def _nurse(self) -> None:
        while True:
            await self._unwell_seen.wait()
            self._unwell_seen.clear()
            names, self._unwell = sorted(self._unwell), set()
            left = await self._heartbeats.put_right(names)
            if left:
                await asyncio.sleep(_RETRY_SECONDS)
                self._unwell.update(left)
                self._unwell_seen.set()

    def _hearing(self, node: str) -> Hearing:
        return Hearing(self, node)

    def hear(self, node: str, report: PodReport) -> None:
        """A runtime reports.

        What it took up from before may change while the node is still being registered. Its agent knows no
        pods yet and would have them removed as strangers; `_begin` sees them as they are by then.
        """
        if self._begun:
            self._do(node, self._agents[node].reported(report, self._now()))

    def _tick(self, node: str) -> None:
        self._alarms.pop(node, None)
        self._do(node, self._agents[node].tick(self._now()))

    def _do(self, node: str, orders: Sequence[Order]) -> None:
        runtime = self._nodes[node].runtime
        for order in orders:
            match order:
                case StartPod(pod, containers):
                    runtime.start(pod, containers)
                case StartContainer(uid, container, attempt):
                    runtime.start_container(uid, container, attempt)
                case StopPod(uid, grace):
                    runtime.stop(uid, grace)
                case StopContainer(uid, container, grace):
                    runtime.stop_container(uid, container, grace)
                case ForgetPod(uid):
                    runtime.remove(uid)
                case WakeAt(steady):
                    self._wake(node, steady)
                case WriteStatus() | FinishDeletion() | RecordEvent():
                    self._writing.take(order)

    def _wake(self, node: str, steady: float) -> None:
        """One alarm a node, at the first of the moments that it waits for."""
        known = self._alarms.get(node)
        if known is not None:
            if known[0] <= steady:
                return
            known[1].cancel()
        self._alarms[node] = (steady, self._timers.call_at(steady, self._tick, node))

    def _now(self) -> Moment:
        return Moment(self._timers.wall(), self._timers.steady())


class Hearing:
    """Where the runtime of one node reports to."""

    def __init__(self, host: ResourceHost, node: str) -> None:
        self._host, self._node = host, node

    def __call__(self, report: PodReport) -> None:
        """Passed on, with the node's name."""
        self._host.hear(self._node, report)
