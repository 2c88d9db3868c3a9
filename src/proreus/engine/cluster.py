"""A cluster in one process: store, agents, nodes and the API, opened and closed in order."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.controllers.namespaces.controller import note_api
from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.controllers.promotion.controller import PromotionOptions
from proreus.engine.kubelet.host import FOLLOWED, ResourceHost
from proreus.engine.kubelet.images_api import MachineImages
from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.leader_only import Controllers
from proreus.engine.node_host import MachineNode, SimulatedNodes, open_nodes
from proreus.engine.node_server import open_node_door
from proreus.engine.objects.anonymous_access import check_access, note_access
from proreus.engine.objects.kinds import NAMESPACE
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, Chosen
from proreus.engine.runtimes.clock import LoopTimers, Timers
from proreus.engine.store.factory import InFile, InMemory, open_store, read_address
from proreus.engine.store.options import DEFAULTS
from proreus.engine.store.protocol import Store
from proreus.engine.store.sqlite.high_water_mark import StoreLost
from proreus.engine.supervisor import Part, supervise
from proreus.engine.watch.informer import Informer
from proreus.httpserver.pages import Pages
from proreus.httpserver.sockets import listen
from proreus.model.errors import UsageError
from proreus.policies.policy_folders import PolicyFolders

# What decides is imported where something is decided: without the compiler of its kernels, a process that
# only runs nodes needs half the memory, and less than half the time to start.
if TYPE_CHECKING:
    from proreus.engine.scheduler.core import SchedulingOptions
    from proreus.engine.scheduler.decider import Decider
    from proreus.policies.isolated_policy import Strangers

_WAY_ON = "restore the store from a copy, or go on with what is there: --accept-loss"


@dataclass(frozen=True)
class EngineOptions:
    """Which parts of a cluster run here."""

    store: str
    """Its address: see `factory.open_store`."""
    nodes: SimulatedNodes | MachineNode
    deciding: SchedulingOptions | None = None
    """None: scheduling and all other agents but those of the nodes run elsewhere."""
    api: ApiOptions | None = None
    """None: the API is elsewhere."""
    identity: str = ""
    """Among those that stand for election; one that stays the same takes up at once what its last process has
    left. "": made anew."""
    patience: Patience = field(default_factory=Patience)
    """With nodes that fall silent."""
    joins: bool = False
    """Whether the store must have a cluster in it already."""
    promotion: PromotionOptions = field(default_factory=PromotionOptions)
    """Of candidates that are put up for a scheduler."""
    accept_loss: bool = False
    """Whether to go on where the store lacks what was acknowledged, or is empty while pods run."""
    pages: Pages | None = None
    """The dashboard that the API shows."""
    door_port: int | None = None
    """Where this machine answers the API of another process for its pods; 0: any port, None: nowhere."""


class Engine:
    """One cluster, or the part of it that runs in this process."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.port = 0
        """Where the API listens, or the door of a machine that joined, once it does."""
        self.machine: MachineRuntime | None = None
        """What runs the pods of this machine, once it does; None where nodes are simulated."""
        self.left_behind: tuple[str, ...] = ()
        """Nodes that the same process ran when it was last started, and now does not."""
        self._identity = options.identity or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._decider: Decider | None = None
        self._strangers: Strangers | None = None
        self._refused: Callable[[], Mapping[str, str]] = dict
        """What is wrong with choices of schedulers that are not in effect."""
        self._failing: Callable[[], Mapping[str, Mapping[str, str]]] = dict

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes of this process."""
        match self.options.nodes:
            case SimulatedNodes(names):
                return names
            case MachineNode(name):
                return (name,)
            case nodes:
                assert_never(nodes)

    def load(self) -> None:
        """Compile what decides, before anybody waits for it; the first time it takes a minute.

        A port that is in use is told before that minute.
        """
        api = self.options.api
        if api is not None and api.port:
            listen(api.host, api.port, "the API").close()
        chosen = self.options.deciding
        if chosen is not None:
            from proreus.engine.scheduler.decider import Decider
            from proreus.worlds.pods.policies.wire_format import pod_strangers

            self._strangers = pod_strangers() if chosen.apart else None
            self._decider = Decider(chosen.default, chosen.policies, chosen.seed, strangers=self._strangers)
            self._decider.warm_up()

    async def run(self, ending: asyncio.Event, ready: Callable[[Engine], None]) -> None:
        """Open everything, say so, and close it again when told to end."""
        async with AsyncExitStack() as stack:
            store = await self._open_store()
            stack.push_async_callback(store.close)
            registry = Registry(store)
            if self.options.joins:
                await self._check_cluster(registry)
            elif not self.options.accept_loss:
                await self._check_pods(registry)
            await registry.prepare()
            if self.options.joins and isinstance(self.options.nodes, MachineNode):
                await check_access(registry)
            timers = LoopTimers()
            informers = {kind: Informer(registry, kind) for kind in FOLLOWED}
            nodes = await open_nodes(self.options.nodes, registry, timers, stack)
            self.machine = nodes.machine
            host = ResourceHost(registry, timers, nodes.housed, informers, self._identity)
            stack.push_async_callback(host.release)
            await host.claim()
            self.left_behind = tuple(await host.left_behind())
            parts: dict[str, Part] = {
                f"the informer of {kind.plural}": informer.run for kind, informer in informers.items()
            }
            parts["the nodes"] = host.run
            if self.options.deciding is not None:
                parts |= self._deciding(registry, timers, stack, self.options.deciding)
            if self.options.api is not None:
                await self._open_api(registry, host, stack, self.options.api)
            node = self.options.nodes
            if self.options.door_port is not None and isinstance(node, MachineNode):
                inside = ApiDependencies(logs=host, commands=host, images=self._images(host))
                self.port = await open_node_door(registry, node, self.options.door_port, inside, stack)
            ready(self)
            await supervise(parts, ending)

    async def _open_store(self) -> Store:
        match read_address(self.options.store):
            case InFile(path) if self.options.joins and not path.exists():
                raise self._no_cluster()
            case _:
                options = replace(DEFAULTS, accept_loss=self.options.accept_loss)
        try:
            return await open_store(self.options.store, options)
        except StoreLost as lost:
            what = "its `proreus up` says what to do" if self.options.joins else _WAY_ON
            raise UsageError(f"{lost}; {what}") from lost

    async def _check_cluster(self, registry: Registry) -> None:
        if not await self._has_cluster(registry):
            raise self._no_cluster()

    async def _check_pods(self, registry: Registry) -> None:
        """A cluster that begins ends whatever runs of another; where one was, its store is not at hand."""
        nodes = self.options.nodes
        if not isinstance(nodes, MachineNode) or isinstance(read_address(self.options.store), InMemory):
            return
        pods = nodes.options.root / "pods"
        if await asyncio.to_thread(_holds_some, pods) and not await self._has_cluster(registry):
            raise UsageError(
                f"{self.options.store}: no cluster is in it, but pods of one are here ({pods}), and "
                f"would be ended; `proreus down` ends them, too; {_WAY_ON}"
            )

    async def _has_cluster(self, registry: Registry) -> bool:
        return bool((await registry.list(NAMESPACE, limit=1)).items)

    def _no_cluster(self) -> UsageError:
        store = self.options.store
        return UsageError(f"--store {store}: no cluster is in it; is that the one of its `proreus up`?")

    def _deciding(
        self, registry: Registry, timers: Timers, stack: AsyncExitStack, options: SchedulingOptions
    ) -> dict[str, Part]:
        """Agents of which others may wait in other processes; these let them lead when they end."""
        from proreus.engine.scheduler.agent import AgentOptions, SchedulingAgent

        agent_options = AgentOptions(options, identity=self._identity)
        scheduler = SchedulingAgent(registry, agent_options, strangers=self._strangers)
        stack.callback(scheduler.close)
        if self._decider is not None:
            scheduler.core.adopt(self._decider)
        self._refused = lambda: scheduler.core.schedulers.refused
        self._failing = scheduler.core.failing
        promotion = replace(self.options.promotion, folders=options.folders)
        controllers = Controllers(registry, timers, self._identity, self.options.patience, promotion)
        stack.push_async_callback(scheduler.resign)
        stack.push_async_callback(controllers.resign)
        return {"the scheduling agent": scheduler.run, "the controllers": controllers.run}

    def _images(self, host: ResourceHost) -> MachineImages | None:
        """Of this machine, where it is a node."""
        node = self.options.nodes
        if self.machine is None or not isinstance(node, MachineNode):
            return None
        return MachineImages(node.name, self.machine, node.options, lambda: host.refresh(node.name))

    async def _open_api(
        self, registry: Registry, host: ResourceHost, stack: AsyncExitStack, options: ApiOptions
    ) -> None:
        around = ApiDependencies(
            logs=host,
            commands=host,
            images=self._images(host),
            relay=NodeRelay(registry, frozenset(self.node_names)),
            trends=host,
            schedulers=_schedulers(self.options.deciding),
            refused=self._refused,
            failing=self._failing,
            folders=PolicyFolders() if self.options.deciding is None else self.options.deciding.folders,
            simulated=isinstance(self.options.nodes, SimulatedNodes),
            pages=self.options.pages,
        )
        await note_access(registry, by_token=options.tokens is not None)
        app = create_app(registry, options, around)
        server = ApiServer(app, options)
        self.port = server.port
        if options.authority is not None or options.credentials is not None:
            await note_api(registry, server.port, await asyncio.to_thread(_certificate, options))
        await server.start()
        stack.push_async_callback(server.stop)


def _certificate(options: ApiOptions) -> str:
    """By which the API is known: of the authority that signs its certificate, or that one itself (PEM)."""
    if options.authority is not None:
        return options.authority.certificate.read_text()
    assert options.credentials is not None
    return options.credentials[0].read_text()


def _holds_some(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _schedulers(deciding: SchedulingOptions | None) -> dict[str, Chosen]:
    """Who decides by default, as the API tells of it."""
    return {} if deciding is None else {DEFAULT_SCHEDULER: deciding.default}
