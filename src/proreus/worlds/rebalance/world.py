"""The world of rebalancing as comparisons see it: what its two kinds of scenario have in common.

`deploy` has the scenarios of windows of requests, `snapshots` those of virtual machines at one moment.
"""

from __future__ import annotations

from proreus.contract.world import Quantity, World
from proreus.worlds.rebalance.snapshots.simulation.world import MEASURES as OF_SNAPSHOTS
from proreus.worlds.rebalance.windows.simulation.outcome import MEASURES as OF_WINDOWS


def load_kernels() -> None:
    """Compile what the runs need, or load it from the cache."""
    from proreus.worlds.rebalance.snapshots.scenarios import load_kernels as of_snapshots
    from proreus.worlds.rebalance.windows.scenarios import (
        load_kernels as of_windows,  # it needs the world below
    )

    of_windows()
    of_snapshots()


REBALANCE = World(
    name="rebalance",
    measures={**OF_WINDOWS, **OF_SNAPSHOTS},
    quantities=(
        Quantity("violations", "Requests above the threshold", "%", "violations"),
        Quantity("hit", "Requests hit by contention", "%", "hit"),
        Quantity("migrations", "Migrations so far", "pods", "migrations"),
        Quantity("fullest", "Fullest node, by what is asked", "%", "fullest"),
        Quantity("fragments", "Fragment rate", "%", "fragments"),
        Quantity("moves", "Migrations so far", "moves", "moves"),
    ),
    load_kernels=load_kernels,
    does={
        "violations": "serves {} of the requests above the threshold",
        "fragment_rate": "leaves {} of the free cores in fragments",
    },
    noun="pods",
    place="node",
    caution="A request above the threshold is served; one hit by contention gets less than it asks for.",
)
