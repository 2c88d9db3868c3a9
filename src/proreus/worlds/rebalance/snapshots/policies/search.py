"""Plans for a snapshot by annealing from several starts on all cores; the same seed gives the same plan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.rng import seeded
from proreus.model.errors import UsageError
from proreus.workers.cores import available_cores
from proreus.worlds.rebalance.snapshots.policies.anneal import OVERDRAFT, anneal
from proreus.worlds.rebalance.snapshots.policies.search_state import all_at_home
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines, copied

_STREAM = 1_000_003  # seeds of the starts lie far apart
_FEWEST, _MOST = 1_000, 10_000_000


@dataclass(frozen=True)
class SearchOptions:
    """How much the search tries."""

    effort: int = 2000
    """Proposals per virtual machine and start (between 1,000 and 10 million in all)."""
    starts: int = 4
    """Walks from different seeds; the best plan of all is taken, the first among equals."""
    seed: int = 0
    """Of the first walk."""

    def __post_init__(self) -> None:
        if self.effort < 1 or self.starts < 1:
            raise UsageError("effort and starts of the search are at least 1")


def search_plan(machines: Machines, budget: int, options: SearchOptions | None = None) -> I64:
    """int64[n, 3], n at most `budget`: virtual machine, machine, NUMA node, each with room in its turn."""
    options = options or SearchOptions()
    count = machines.machine.shape[0]
    if budget < 1 or not count:
        return np.empty((0, 3), dtype=np.int64)
    kind, representative = kinds_of(machines)
    proposals = min(max(options.effort * count, _FEWEST), _MOST)

    def walk(start: int) -> tuple[int, I64]:
        own = copied(machines)
        books = all_at_home(own, kind, budget + OVERDRAFT + 1)
        # Every other walk sets out from the greedy rule's plan: on large clusters it is hard to beat.
        from_greedy = start % 2 == 1
        rng = seeded(options.seed * _STREAM + start)
        return anneal(own, books, representative, (budget, proposals, from_greedy), rng)

    with ThreadPoolExecutor(max_workers=min(options.starts, available_cores())) as pool:
        walks = list(pool.map(walk, range(options.starts)))
    best = max(range(options.starts), key=lambda start: (walks[start][0], -start))
    return walks[best][1]
