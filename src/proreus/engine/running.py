"""A cluster in one process: store, registry, agents, simulated nodes and the API, opened and closed in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from proreus.engine.agents.informer import Informer
from proreus.engine.agents.resource.heartbeats import Housed
from proreus.engine.agents.resource.host import ResourceHost
from proreus.engine.agents.resource.nodes import NodeSpec
from proreus.engine.agents.scheduling.core import SchedulingOptions
from proreus.engine.agents.task.host import FOLLOWED, TaskHost
from proreus.engine.api.application import Surroundings, create_app
from proreus.engine.api.options import ApiOptions
from proreus.engine.api.server import ApiServer
from proreus.engine.objects.kinds import NODE, POD, Kind
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.draws import Habits
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.runtimes.timers import LoopTimers, Timers
from proreus.engine.store.opening import open_store
from proreus.engine.supervising import Part, supervise
from proreus.version import __version__

try:
    from uvloop import new_event_loop as new_loop
except ImportError:  # there is none for Windows
    from asyncio import new_event_loop as new_loop

__all__ = ["Engine", "EngineOptions", "SimulatedNodes", "new_loop"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SimulatedNodes:
    """The nodes that this process runs."""

    names: tuple[str, ...]
    amounts: Mapping[str, str]
    """What each has, by the names of Kubernetes."""
    seed: int = 0


@dataclass(frozen=True)
class EngineOptions:
    """Which parts of a cluster run here."""

    store: str
    """Its address: see `opening.open_store`."""
    nodes: SimulatedNodes
    deciding: SchedulingOptions | None = None
    """None: scheduling and task agents run elsewhere."""
    api: ApiOptions | None = None
    """None: the API is elsewhere."""


class Engine:
    """One cluster, or the part of it that runs in this process."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.port = 0
        """Where the API listens, once it does."""

    async def run(self, ending: asyncio.Event, ready: Callable[[Engine], None]) -> None:
        """Open everything, say so, and close it again when told to end."""
        async with AsyncExitStack() as stack:
            store = await open_store(self.options.store)
            stack.push_async_callback(store.close)
            registry = Registry(store)
            await registry.prepare()
            process = _Process(registry, LoopTimers())
            host = process.add_nodes(self.options.nodes)
            if self.options.deciding is not None:
                process.add_controllers(self.options.deciding)
            if self.options.api is not None:
                app = create_app(registry, self.options.api, Surroundings(logs=host))
                server = ApiServer(app, self.options.api)
                self.port = server.port
                await server.start()
                stack.push_async_callback(server.stop)
            ready(self)
            await supervise(process.parts(), ending)
