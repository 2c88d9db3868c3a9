"""The shell of the nodes' lifecycle: it listens, ticks, and does what must be done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from proreus.engine.controllers.executor import carry_out
from proreus.engine.controllers.instructions import DeleteObject, Instruction
from proreus.engine.controllers.nodes.lifecycle import NodeLifecycle, Patience
from proreus.engine.controllers.nodes.taint_eviction import BY_LOSS
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import NotFound, StatusError
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.kinds import LEASE, LEASE_NAMESPACE, NODE, POD, Kind
from proreus.engine.objects.metadata import Object, name_of, namespace_of
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import Moment, Timers
from proreus.engine.watch.informer import Informer

FOLLOWED = (NODE, LEASE, POD)
TICK_SECONDS = 2.0
_ORPHAN_SECONDS = 20.0
"""How often pods of nodes that are gone are looked for."""


class NodeHost:
    """See the module; `informers` follow at least `FOLLOWED`."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        informers: Mapping[Kind, Informer],
        patience: Patience | None = None,
        term: Term | None = None,
    ) -> None:
        self._registry, self._timers, self._informers = registry, timers, informers
        self._term = term
        self._core = NodeLifecycle(patience or Patience())
        self._recorder = EventRecorder(registry, "proreus-node-agent", timers.wall)
        informers[NODE].subscribe(self._node_changed)
        informers[LEASE].subscribe(self._lease_changed)
        informers[POD].subscribe(self._pod_changed)

    async def run(self) -> None:
        """Serve until cancelled."""
        for kind in FOLLOWED:
            await self._informers[kind].synced.wait()
        looked = self._timers.steady()
        while True:
            instructions = self._core.tick(self._now())
            if self._timers.steady() - looked >= _ORPHAN_SECONDS:
                looked = self._timers.steady()
                instructions += await self._orphans()
            if instructions:
                await carry_out(self._registry, self._recorder, instructions, self._term)
            await asyncio.sleep(TICK_SECONDS)

    async def _orphans(self) -> list[Instruction]:
        """Pods of nodes that the store does not have end without grace: nobody else will end them."""
        instructions: list[Instruction] = []
        gone: dict[str, bool] = {}
        for pod in self._core.orphans():
            node = pod["spec"]["nodeName"]
            if node not in gone:
                gone[node] = await self._is_gone(node)
            if gone[node]:
                instructions.append(DeleteObject(POD, pod, grace=0, disruption=BY_LOSS))
        return instructions

    async def _is_gone(self, node: str) -> bool:
        try:
            await self._registry.get(NODE, "", node)
        except NotFound:
            return True
        except StatusError:
            return False
        return False

    def _node_changed(self, event: ObjectEvent) -> None:
        if event.type == "DELETED":
            self._core.node_gone(name_of(event.object))
        else:
            self._core.node(event.object, self._now())

    def _lease_changed(self, event: ObjectEvent) -> None:
        lease: Object = event.object
        if event.type != "DELETED" and namespace_of(lease) == LEASE_NAMESPACE:
            renewed = str((lease.get("spec") or {}).get("renewTime") or "")
            self._core.lease(name_of(lease), renewed, self._now())

    def _pod_changed(self, event: ObjectEvent) -> None:
        if event.type == "DELETED":
            self._core.pod_gone(event.object)
        else:
            self._core.pod(event.object, event.previous)

    def _now(self) -> Moment:
        return Moment(self._timers.wall(), self._timers.steady())
