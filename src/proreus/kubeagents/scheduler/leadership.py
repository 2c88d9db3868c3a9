"""Who may write: the holder of the Lease, unless the kill switch is on."""

from __future__ import annotations

import asyncio

from proreus.kubeagents.scheduler.kill_switch import KillSwitch
from proreus.kubeclient.leases import LeaseElection


class SwitchedLeadership:
    """A Lease and a switch; without a Lease this process always leads."""

    def __init__(self, election: LeaseElection | None, switch: KillSwitch) -> None:
        self.election, self._switch = election, switch
        self.changed = asyncio.Event() if election is None else election.changed
        self._turns = 0
        switch.subscribe(self._turned)

    @property
    def mandate(self) -> tuple[int, int] | None:
        """The term, and how often the switch was turned: after each turn everything is listed anew."""
        if self._switch.on:
            return None
        term = 1 if self.election is None else self.election.term
        return None if term is None else (term, self._turns)

    @property
    def leads(self) -> bool:
        """Whether it has the Lease, whatever the switch says."""
        return self.election is None or self.election.term is not None

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._switch.run())
            if self.election is not None:
                group.create_task(self.election.run())

    async def resign(self) -> None:
        """Let another lead at once."""
        if self.election is not None:
            await self.election.resign()

    def _turned(self) -> None:
        self._turns += 1
        self.changed.set()
