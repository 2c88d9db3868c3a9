"""Signs of life of all nodes of a host: leases renewed in few large transactions, nodes put right."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.kubelet.disk_pressure import NO_PRESSURE, Pressure, disk_pressure
from proreus.engine.kubelet.node_lease import (
    NodeTaken,
    claimed,
    left_behind,
    released,
    sign_of_life,
)
from proreus.engine.kubelet.node_status import (
    LEASE_SECONDS,
    NodeSpec,
    NodeState,
    new_lease,
    new_node,
    node_status,
    renewed_lease,
    with_offers,
)
from proreus.engine.kubelet.usage.reporter import UsageReporter
from proreus.engine.leader_election import FAREWELL_SECONDS
from proreus.engine.objects.errors import AlreadyExists, NotFound, StatusError, Unserviceable
from proreus.engine.objects.intents import Change, Intent
from proreus.engine.objects.kinds import LEASE, LEASE_NAMESPACE, NODE
from proreus.engine.objects.metadata import Object, name_of
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.runtimes.protocol import Image, PodRuntime

_log = logging.getLogger(__name__)
RENEW_SECONDS = LEASE_SECONDS / 4
_FEWEST_BEATS, _MOST_BEATS = 4, 40
"""Each interval is cut into so many beats; a part of the nodes is renewed at each."""
_AT_A_BEAT = 50
"""Nodes, where the beats are enough: they hold the loop for some milliseconds."""


@dataclass(frozen=True)
class Housed:
    """A node of this host."""

    spec: NodeSpec
    runtime: PodRuntime
    disk: Path | None = None
    """A folder on the disk that its pods live on; None: it has none, as simulated nodes."""


_Told = tuple[tuple[Image, ...], str, Pressure]


class Heartbeats:
    """Registers nodes and shows that they live; see the module."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        nodes: Mapping[str, Housed],
        stands: Callable[[str], bool],
        measuring: UsageReporter,
        process: str = "",
    ) -> None:
        """process: in whose name nodes are claimed; "": in nobody's."""
        self._registry, self._timers, self._nodes, self._stands = registry, timers, nodes, stands
        self._measuring = measuring
        self._process = process
        self._told: dict[str, _Told] = {}
        """What the API knows of each: the images that it holds, its trouble, and what its disk lacks."""
        self._silent: Mapping[str, str] = {}
        """By node, signs of life of others after which none came."""

    async def claim(self) -> None:
        """Every node has a lease in this process' name; raises `NodeTaken`.

        A lease that is dated in the future is looked at for as long as one holds: whoever lives renews it.
        """
        leases = [self._new_lease(name) for name in self._nodes]
        outcomes = await self._registry.create_many(LEASE, leases)
        stood = [name for name, out in zip(self._nodes, outcomes, strict=True) if _existed(out)]
        try:
            await self._renew(stood)
        except NodeTaken as taken:
            if not taken.ahead:
                raise
            before = await self._signs_of_life()
            _log.warning("%s: looking for another one for %d s", taken, LEASE_SECONDS)
            await asyncio.sleep(LEASE_SECONDS)
            self._silent = before
            await self._renew(stood)
            self._silent = {}

    async def _signs_of_life(self) -> dict[str, str]:
        leases = (await self._registry.list(LEASE, LEASE_NAMESPACE)).items
        return {name_of(lease): sign_of_life(lease) for lease in leases}

    async def release(self) -> None:
        """Whoever comes next may claim the nodes at once."""
        wants: list[Intent] = [
            self._registry.editing(LEASE, LEASE_NAMESPACE, name, lambda lease: released(lease, self._process))
            for name in self._nodes
            if self._process
        ]
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                outcomes = await self._registry.commit_each(wants)
        except TimeoutError:
            outcomes = [Unserviceable("the store does not answer")]
        for outcome in outcomes:
            if isinstance(outcome, Unserviceable):
                _log.warning("nodes were not given back, others wait for their leases' end: %s", outcome)
                return

    async def left_behind(self) -> list[str]:
        """Nodes that stand in the API and that this process ran before, but not now."""
        if not self._process:
            return []
        leases = (await self._registry.list(LEASE, LEASE_NAMESPACE)).items
        names = left_behind(leases, self._process, self._nodes)
        standing = {name_of(node) for node in (await self._registry.list(NODE)).items} if names else set()
        return [name for name in names if name in standing]

    async def register(self) -> None:
        """Every node stands in the API, well; what stood there before is put right."""
        now = self._timers.wall()
        made = [new_node(node.spec, self._look(name), now) for name, node in self._nodes.items()]
        outcomes = await self._registry.create_many(NODE, made)
        stood = [name for name, outcome in zip(self._nodes, outcomes, strict=True) if _existed(outcome)]
        await self.put_right(stood)
        await self._registry.commit_each(
            [self._registry.editing(NODE, "", name, self._with_offers(name)) for name in stood]
        )

    def _with_offers(self, name: str) -> Change:
        capacity = self._nodes[name].runtime.capacity()
        return lambda node: with_offers(node, capacity)

    async def run(self) -> None:
        """Renew for ever, a part of the nodes at each beat."""
        names = sorted(self._nodes)
        beats = beats_for(len(names))
        beat = 0
        while True:
            await asyncio.sleep(RENEW_SECONDS / beats)
            due = names[beat::beats]
            await self._renew(due)
            await self._tell_use(due)
            await self.put_right([name for name in due if self._changed(name)])
            beat = (beat + 1) % beats

    async def put_right(self, names: Sequence[str]) -> list[str]:
        """The API shows these nodes as they are. Returns those that the store had no answer for."""
        wants: list[Intent] = [
            self._registry.editing(NODE, "", name, self._as_it_is(name), subresource="status")
            for name in names
        ]
        outcomes = await self._registry.commit_each(wants)
        untold = [name for name, out in zip(names, outcomes, strict=True) if isinstance(out, Unserviceable)]
        for name in untold:  # again at the next beat
            self._told.pop(name, None)
        return untold

    async def _renew(self, names: Sequence[str]) -> None:
        wants: list[Intent] = [
            self._registry.editing(LEASE, LEASE_NAMESPACE, name, self._alive(name)) for name in names
        ]
        outcomes = await self._registry.commit_each(wants)
        taken = [outcome for outcome in outcomes if isinstance(outcome, NodeTaken)]
        if taken:
            raise min(taken, key=lambda node_taken: node_taken.ahead)
        lost = [name for name, out in zip(names, outcomes, strict=True) if isinstance(out, NotFound)]
        again = [name for name in lost if self._stands(name)]  # a node that was deleted stays away
        if again:
            await self._registry.create_many(LEASE, [self._new_lease(name) for name in again])

    def _new_lease(self, name: str) -> Object:
        now = self._timers.wall()
        return self._ours(new_lease(name, now), now)

    def _ours(self, lease: Object, now: float) -> Object:
        if not self._process:
            return lease
        return claimed(lease, self._process, now, self._silent.get(name_of(lease), ""))

    async def _tell_use(self, names: Sequence[str]) -> None:
        """What others may want to know of the nodes' pods; a store that is away is told the next time."""
        standing = [name for name in names if self._stands(name)]
        try:
            await self._measuring.tell(standing)
            await self._measuring.withdraw([name for name in names if not self._stands(name)])
        except Unserviceable as error:
            _log.info("%s", error)

    def _alive(self, name: str) -> Change:
        load, now = self._measuring.sample(name, self._timers.steady()), self._timers.wall()

        def change(lease: Object) -> Object:
            return renewed_lease(self._ours(lease, now), load, now)

        return change

    def _as_it_is(self, name: str) -> Change:
        spec, now, state = self._nodes[name].spec, self._timers.wall(), self._look(name)

        def change(node: Object) -> Object:
            return {**node, "status": node_status(node, spec, state, now)}

        return change

    def _look(self, name: str) -> NodeState:
        """What it has and holds, of which the API is told now."""
        images, trouble, pressure = self._told[name] = self._seen(name)
        return NodeState(self._nodes[name].runtime.capacity(), images, trouble, pressure.lacks)

    def _changed(self, name: str) -> bool:
        return self._seen(name) != self._told.get(name)

    def _seen(self, name: str) -> _Told:
        housed = self._nodes[name]
        disk = housed.disk
        pressure = NO_PRESSURE if disk is None else disk_pressure(disk)
        return tuple(housed.runtime.images()), housed.runtime.trouble(), pressure


def beats_for(nodes: int) -> int:
    """How many beats an interval has for so many nodes."""
    return min(max(_FEWEST_BEATS, math.ceil(nodes / _AT_A_BEAT)), _MOST_BEATS)


def _existed(outcome: dict[str, object] | StatusError) -> bool:
    if isinstance(outcome, StatusError) and not isinstance(outcome, AlreadyExists):
        raise outcome
    return isinstance(outcome, AlreadyExists)
