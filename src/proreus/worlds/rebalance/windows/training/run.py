"""What `proreus train rebalance --algo es` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from proreus.learning.evolution_run import EvolutionRun
from proreus.learning.runs import Identity
from proreus.worlds.rebalance.windows.encoding import VERSION
from proreus.worlds.rebalance.windows.policies.catalogue import KIND
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig, MovesGeneration

WORLD = "rebalance"


class MovesRun(EvolutionRun[MovesGeneration]):
    """The run folder of an evolution of moves between windows; a scenario's name says all of it."""

    def __init__(
        self, path: Path, config: MovesESConfig, scenarios: Sequence[WindowScenario], *, resume: bool
    ) -> None:
        names = tuple(scenario.name for scenario in scenarios)
        gain = "gain over hotspot"
        identity = Identity("es", KIND, names, asdict(config), config.seed, WORLD, VERSION, gain=gain)
        super().__init__(path, identity, lambda found: {"weights": found.weights}, resume=resume)
