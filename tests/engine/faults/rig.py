"""Churn, and watches that follow it, around whatever a test does to the processes of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.engine.faults.asked_for import until_as_asked_for
from tests.engine.faults.churn import Churn
from tests.engine.faults.client import Client
from tests.engine.faults.history import History
from tests.engine.faults.workloads import SimulatedWork, Work

SMALL = ("--nodes", "4", "--node-cpu", "6", "--node-memory", "8Gi")


@dataclass
class Rig:
    """What acts on a cluster and what looks at it, each with connections of its own."""

    client: Client
    history: History
    churn: Churn

    async def settled(self, seconds: float = 60.0) -> float:
        """The cluster comes to what was asked for, all watches to what stands; the seconds it took."""
        took = await until_as_asked_for(self.client, self.churn.ledger, seconds)
        await self.history.until_told()
        return took

    def broken(self) -> list[str]:
        """Laws that were broken, and acknowledged writes that were lost."""
        return [*self.history.laws.broken, *self.churn.ledger.missing(self.history.laws)]

    def holders(self, lease: str) -> list[str]:
        """Who led, one after the other."""
        return self.history.laws.holders[lease]


@asynccontextmanager
async def rigged(*servers: str, seed: int, work: Work | None = None) -> AsyncIterator[Rig]:
    """A rig whose watches run as long as the block lasts."""
    client, watching = Client(servers), Client(servers)
    rig = Rig(client, History(watching), Churn(client, seed, work or SimulatedWork()))
    try:
        async with rig.history.followed():
            yield rig
    finally:
        await client.close()
        await watching.close()
