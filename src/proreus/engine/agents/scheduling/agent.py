"""The SchedulingAgent: the core between informers and the registry. Several may run; one of them leads.

Those that do not lead follow all the same, so that whoever takes over knows the cluster. Before it decides it
lists everything anew: what an earlier leader wrote before the fence moved is in there, and after that it can
write nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.agents.informer import Informer, Told
from proreus.engine.agents.leading import Leader, LeaseTimes
from proreus.engine.agents.scheduling.carrying_out import Hands
from proreus.engine.agents.scheduling.core import SchedulingCore, SchedulingOptions
from proreus.engine.agents.scheduling.values import Bind, Event, Gone, Instruction, Seen
from proreus.engine.agents.scheduling.warming import warm_up_scheduling
from proreus.engine.objects.decisions import DECISION
from proreus.engine.objects.errors import Refused
from proreus.engine.objects.kinds import (
    BUDGET,
    CONFIG_MAP,
    LEASE,
    LEASE_NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
)
from proreus.engine.objects.kinds import (
    NAMESPACE as NAMESPACE_KIND,
)
from proreus.engine.objects.promotions import ways
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schedulers import DEFAULT_SCHEDULER, NAME, NAMESPACE, Chosen, read_chosen
from proreus.engine.store.protocol import Unchanged
from proreus.model.errors import ProreusError

LEASE_NAME = "proreus-scheduler"
_MOST_AT_ONCE = 64
"""Decisions before others have their turn on the event loop."""
_MOST_UNDER_WAY = 4
"""Batches of instructions that are being carried out while others are decided."""
_LONGEST_WAIT = 1.0
_REMEMBERED = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentOptions:
    """How a SchedulingAgent runs."""

    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
    times: LeaseTimes = field(default_factory=LeaseTimes)
    identity: str = ""
    """Among those that stand for election; "": made from host and process."""
    events: bool = True
    """Whether decisions are told as Event objects, too."""


class SchedulingAgent:
    """See the module."""

    def __init__(
        self,
        registry: Registry,
        options: AgentOptions | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] | None = None,
    ) -> None:
        self._options = options or AgentOptions()
        self._registry, self._clock = registry, clock
        self._steady = steady or _steady_from(clock)
        self.core = SchedulingCore(self._options.scheduling)
        identity = self._options.identity or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.leader = Leader(registry, LEASE_NAME, identity, self._options.times)
        self.recent: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        """The last decisions that bound a pod, newest last."""
        self._hands = Hands(registry, clock, self.leader.fenced, self._options.events)
        kinds = (NAMESPACE_KIND, NODE, REPLICA_SET, SERVICE, BUDGET, POD)
        self._informers = [Informer(registry, kind, self._told) for kind in kinds]
        self._informers.insert(0, Informer(registry, CONFIG_MAP, self._told, NAMESPACE))
        self._informers.append(Informer(registry, LEASE, self._told, LEASE_NAMESPACE))
        self._inbox: deque[Event] = deque()
        self._news = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._led: Unchanged | None = None
        """The fence under which everything was listed anew."""

    async def run(self) -> None:
        """Follow, stand for election, and decide while leading, until cancelled."""
        await asyncio.to_thread(warm_up_scheduling)
        await asyncio.to_thread(self.core.decider, self._options.scheduling.default)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers:
                    group.create_task(informer.run())
                for informer in self._informers:
                    await informer.synced.wait()
                group.create_task(self.leader.run())
                group.create_task(self._work())
        finally:
            for task in self._under_way:
                task.cancel()

    async def resign(self) -> None:
        """Let another lead at once."""
        await self.leader.resign()

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges, by name."""
        return {
            "leading": self._led is not None,
            "decisions": dict(self.core.counts),
            "fallbacks": dict(self.core.fallbacks()),
            "queue": self.core.queue.counts(),
            "shadow": {
                name: {"agreed": one.agreed, "differed": one.differed}
                for name, one in self.core.differences.items()
            },
            "relisted": sum(informer.relisted for informer in self._informers),
        }

    def shadows(self) -> dict[str, Any]:
        """By schedulerName: where its shadow would have differed, and what that would have changed."""
        return {name: found.told() for name, found in self.core.differences.items()}

    # Below the face.

    def _told(self, told: Told) -> None:
        self._inbox.append((Gone if told.gone else Seen)(told.kind.kind, told.object))
        self._news.set()

    async def _work(self) -> None:
        while True:
            self._news.clear()
            await self._take_note()
            fence = self.leader.fence
            if fence is None:
                self._led = None
            elif fence != self._led:
                await self._take_over(fence)
                continue
            elif await self._decide(fence):
                await asyncio.sleep(0)
                continue
            await self._pause()

    async def _take_note(self) -> None:
        while self._inbox:
            event = self._inbox.popleft()
            if isinstance(event, Seen):
                await self._prepare(event)
            self.core.handle(event, self._steady())

    async def _prepare(self, event: Seen) -> None:
        """Load and compile what a ConfigMap or a pod chooses, elsewhere, before the core does it here."""
        for one in self._chosen(event):
            if not self.core.knows(one):
                try:
                    decider = self.core.load(one)
                    await asyncio.to_thread(decider.warm_up)
                    self.core.adopt(decider)
                except (ProreusError, ImportError):
                    continue  # the core will say so

    def _chosen(self, event: Seen) -> Iterable[Chosen]:
        """Who is to decide from now on."""
        metadata = event.object["metadata"]
        match event.kind:
            case "ConfigMap" if (metadata["namespace"], metadata["name"]) == (NAMESPACE, NAME):
                return {way for one in read_chosen(event.object).chosen.values() for way in ways(one)}
            case "Pod" if not event.object["spec"].get("nodeName"):
                name = event.object["spec"].get("schedulerName") or DEFAULT_SCHEDULER
                found = self.core.schedulers.for_pod(name, metadata.get("uid", ""))
                return (found,) if isinstance(found, Chosen) else ()
            case _:
                return ()

    async def _take_over(self, fence: Unchanged) -> None:
        """Everything anew, now that nobody else can write."""
        await asyncio.gather(*(informer.resync() for informer in self._informers))
        await self._take_note()
        if self.leader.fence == fence:
            self._led = fence

    async def _decide(self, fence: Unchanged) -> bool:
        """One round of decisions; whether there was anything to do."""
        while len(self._under_way) >= _MOST_UNDER_WAY:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        instructions = self.core.cycle(self._steady(), _MOST_AT_ONCE)
        if not instructions:
            return False
        task = asyncio.create_task(self._carry_out(instructions, fence))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def _carry_out(self, instructions: Sequence[Instruction], fence: Unchanged) -> None:
        try:
            failed = await self._hands.carry_out(instructions, fence)
        except Refused as error:
            _log.warning("%s", error)
            failed = []
        lost = {one.pod for one in failed}
        for one in instructions:
            if isinstance(one, Bind) and one.pod not in lost:
                self.recent.append(
                    {
                        "at": self._clock(),
                        "pod": one.pod.key,
                        "uid": one.pod.uid,
                        "node": one.node,
                        "reasons": json.loads(one.annotations[DECISION]),
                    }
                )
        self._inbox.extend(failed)
        if failed:
            self._news.set()

    async def _pause(self) -> None:
        """Until something happens, or a pod has backed off long enough."""
        due = self.core.queue.next_time()
        patience = _LONGEST_WAIT if due is None else min(max(due - self._steady(), 0.01), _LONGEST_WAIT)
        waiting = [asyncio.create_task(self._news.wait()), asyncio.create_task(self.leader.changed.wait())]
        try:
            await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            self.leader.changed.clear()


def _steady_from(clock: Callable[[], float]) -> Callable[[], float]:
    """Seconds since 1970 as the clock shows them now, then by the steady clock: nobody backs off for an hour
    because the machine's clock was put back by one."""
    ahead = clock() - time.monotonic()
    return lambda: ahead + time.monotonic()
