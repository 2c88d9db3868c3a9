"""The SchedulingAgent over an engine's registry. Several may run; one of them leads.

After a new leader has moved the fence, an earlier one can write nothing: see `leader_election`.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from proreus.engine.leader_election import Leader, LeaseTimes
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
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.objects.scheduler_config import NAMESPACE
from proreus.engine.scheduler.binder import Binder
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.decision_loop import DecisionLoop, Surroundings, steady_from
from proreus.engine.scheduler.instructions import ObjectDeleted, ObjectUpdated
from proreus.engine.store.protocol import Unchanged
from proreus.engine.watch.informer import Informer
from proreus.policies.isolated_policy import Strangers
from proreus.worlds.pods.policies.wire_format import pod_strangers

LEASE_NAME = "proreus-scheduler"


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
    def __init__(
        self,
        registry: Registry,
        options: AgentOptions | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] | None = None,
        strangers: Strangers | None = None,
    ) -> None:
        """strangers: those who were loaded before, where some were; they are closed with the agent."""
        self._options = options or AgentOptions()
        if strangers is None and self._options.scheduling.apart:
            strangers = pod_strangers()
        self.core = SchedulingCore(self._options.scheduling, strangers, makes=False)
        identity = self._options.identity or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.leader = Leader(registry, LEASE_NAME, identity, self._options.times)
        kinds = (NAMESPACE_KIND, NODE, REPLICA_SET, SERVICE, BUDGET, POD)
        self._informers = [
            Informer(registry, CONFIG_MAP, NAMESPACE),
            *(Informer(registry, kind) for kind in kinds),
            Informer(registry, LEASE, LEASE_NAMESPACE),
        ]
        binder = Binder(registry, clock, self.leader.fenced, self._options.events)
        around: Surroundings[Unchanged] = Surroundings(
            self._informers, self.leader, binder, clock, steady or steady_from(clock)
        )
        self._loop = DecisionLoop(self.core, around, strangers)
        for informer in self._informers:
            informer.subscribe(partial(self._hear, informer.kind.kind))

    async def run(self) -> None:
        """Follow, stand for election, and decide while leading, until cancelled."""
        await self._loop.run()

    def close(self) -> None:
        """Leave behind whatever is under way: strangers are killed, and who waits for them goes on."""
        self._loop.close()

    async def resign(self) -> None:
        """Let another lead at once."""
        await self.leader.resign()

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges, by name."""
        return {
            "leading": self._loop.led is not None,
            "decisions": dict(self.core.counts),
            "fallbacks": dict(self.core.fallbacks()),
            "queue": self.core.queue.counts(),
            "shadow": {
                name: {"agreed": difference.agreed, "differed": difference.differed}
                for name, difference in self.core.differences.items()
            },
            "relisted": sum(informer.relisted for informer in self._informers),
        }

    def shadows(self) -> dict[str, Any]:
        """By schedulerName: where its shadow would have differed, and what that would have changed."""
        return {name: difference.told() for name, difference in self.core.differences.items()}

    def _hear(self, kind: str, event: ObjectEvent) -> None:
        happened = ObjectDeleted if event.type == "DELETED" else ObjectUpdated
        self._loop.hear(happened(kind, event.object))
