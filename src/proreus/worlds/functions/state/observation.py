"""What a policy sees: a function that needs an instance, or an instance that idles; nodes; what is legal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.worlds.functions.model import KEEPS, Demand, Function
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.instances import fits, may_wait


@dataclass(frozen=True, eq=False)
class FunctionsObservation:
    """Somebody must decide; the columns are live: read them, never write them."""

    demand: Demand
    work: FunctionsWork
    runs: Runs

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self.runs.figure[0, c.NOW])

    @property
    def asks(self) -> Literal["place", "keep"]:
        """Where an instance goes, or how long an idle one stays."""
        return "place" if self.runs.tally[0, c.KIND] == c.PLACING else "keep"

    @property
    def number(self) -> int:
        """Of the function."""
        subject = int(self.runs.tally[0, c.SUBJECT])
        return subject if self.asks == "place" else int(self.runs.instance[0, subject, c.FUNCTION])

    @property
    def function(self) -> Function:
        """That it is about."""
        return self.demand.functions[self.number]

    @property
    def node(self) -> int:
        """Of the instance that idles; -1 where one is to be placed."""
        if self.asks == "place":
            return -1
        return int(self.runs.instance[0, int(self.runs.tally[0, c.SUBJECT]), c.NODE])

    @property
    def nodes(self) -> int:
        """How many there are."""
        return self.work.price.size

    @property
    def waiting(self) -> int:
        """Requests of the function that wait for an instance."""
        return int(self.runs.of[0, self.number, c.WAITING])

    def active(self) -> Bool:
        """[N] nodes that hold an instance: they are paid."""
        found: Bool = self.runs.node[0, :, c.HOLDS] > 0
        return found

    def replicas(self) -> F64:
        """[N] instances of the function on each node."""
        return self.runs.replicas[0, :, self.number].astype(np.float64)

    def reserved(self) -> F64:
        """[N, 2] the shares of CPU and memory that instances reserve."""
        found: F64 = self.runs.node[0, :, [c.CPU, c.MEMORY]].T / self.work.capacity[:, [c.CPU, c.MEMORY]]
        return found

    def used(self) -> F64:
        """[N, 4] the shares of CPU, memory, network and disk in use; above 1 requests are stretched."""
        node, capacity = self.runs.node[0], self.work.capacity
        use: F64 = (
            node[:, [c.BUSY_CPU, c.MEMORY, c.NET, c.DISK]] / capacity[:, [c.CPU, c.MEMORY, c.NET, c.DISK]]
        )
        return use

    def fits(self) -> Bool:
        """[N] nodes with room for an instance of the function."""
        found = [fits(self.work, self.runs, 0, self.number, node) for node in range(self.nodes)]
        return np.array(found, dtype=np.bool_)

    def action_mask(self) -> Bool:
        """bool[N + 1 + K]: an instance on node n, wait for one that is there, keep for KEEPS[k] seconds."""
        mask = np.zeros(self.nodes + 1 + len(KEEPS), dtype=np.bool_)
        if self.asks == "place":
            mask[: self.nodes] = self.fits()
            mask[self.nodes] = may_wait(self.runs, 0, self.number)
        else:
            mask[self.nodes + 1 :] = True
        return mask
