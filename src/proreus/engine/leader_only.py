"""Agents that only one process runs: they begin where it comes to lead, and end where it no longer does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from proreus.engine.controllers.gc.controller import FOLLOWED as OF_HOUSEKEEPING
from proreus.engine.controllers.gc.controller import GcController
from proreus.engine.controllers.namespaces.controller import FOLLOWED as OF_NAMESPACES
from proreus.engine.controllers.namespaces.controller import NamespaceController
from proreus.engine.controllers.nodes.controller import FOLLOWED as OF_NODES
from proreus.engine.controllers.nodes.controller import NodeHost
from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.controllers.promotion.controller import Promoter, PromotionOptions, RegistryRecords
from proreus.engine.controllers.trace.recorder import FOLLOWED as OF_TRACING
from proreus.engine.controllers.trace.recorder import TraceRecorder
from proreus.engine.controllers.workloads.controller import FOLLOWED as OF_TASKS
from proreus.engine.controllers.workloads.controller import TaskHost
from proreus.engine.leader_election import Leader, Term
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.supervisor import Part, supervise
from proreus.engine.watch.informer import Informer

LEASE_NAME = "proreus-controllers"


class Controllers:
    """Task agents, the nodes' lifecycle, housekeeping, trace and promotions, while this process leads.

    Whoever comes to lead begins with informers of its own: what was heard before is of no use, for another
    process has acted on it. Everything is written on the fence of its term: a process that was halted and
    wakes when another leads writes nothing.
    """

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        identity: str,
        patience: Patience | None = None,
        promotion: PromotionOptions | None = None,
    ) -> None:
        self._registry, self._timers, self._patience = registry, timers, patience
        self._promotion = promotion
        self._leader = Leader(registry, LEASE_NAME, identity)

    async def run(self) -> None:
        """Stand for election, and act while leading, until cancelled."""
        standing = asyncio.create_task(self._leader.run())
        try:
            while True:
                term = self._leader.term
                if term is None:
                    await self._change()
                else:
                    await self._lead(term)
        finally:
            standing.cancel()

    async def resign(self) -> None:
        """Let another lead at once."""
        await self._leader.resign()

    async def _lead(self, term: Term) -> None:
        lost = asyncio.Event()
        watching = asyncio.create_task(self._until_lost(term, lost))
        try:
            await supervise(dict(self._parts(term)), lost)
        finally:
            watching.cancel()

    async def _until_lost(self, term: Term, lost: asyncio.Event) -> None:
        while self._leader.fence == term.fence:
            await self._change()
        lost.set()

    async def _change(self) -> None:
        """Until leadership has come or gone, or might have run out."""
        try:
            async with asyncio.timeout(1.0):
                await self._leader.changed.wait()
        except TimeoutError:
            return
        self._leader.changed.clear()

    def _parts(self, term: Term) -> Iterator[tuple[str, Part]]:
        registry, timers = self._registry, self._timers
        kinds = dict.fromkeys((*OF_TASKS, *OF_NODES, *OF_HOUSEKEEPING, *OF_NAMESPACES, *OF_TRACING))
        informers = {kind: Informer(registry, kind) for kind in kinds}
        tasks = TaskHost(registry, timers, informers, term)
        nodes = NodeHost(registry, timers, informers, self._patience, term)
        housekeeping = GcController(registry, timers, informers, term=term)
        namespaces = NamespaceController(registry, timers, informers, term)
        recorder = TraceRecorder(registry, timers, informers, term)
        records = RegistryRecords(registry, term)
        promoter = Promoter(records, timers, self._promotion, informers[POD])
        for kind, informer in informers.items():
            yield f"the informer of {kind.plural}", informer.run
        yield "the task agents", tasks.run
        yield "the nodes' lifecycle", nodes.run
        yield "the housekeeping", housekeeping.run
        yield "what every namespace has", namespaces.run
        yield "the trace of pods", recorder.run
        yield "the promotion of candidates", promoter.run
