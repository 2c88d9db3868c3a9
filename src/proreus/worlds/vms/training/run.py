"""What `proreus train vms --algo es` keeps."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from proreus.learning.evolution_run import EvolutionRun
from proreus.learning.runs import Identity
from proreus.worlds.vms.encoding.place import VERSION
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGeneration


class VmsEvolutionRun(EvolutionRun[VmsGeneration]):
    """The run folder of an evolution in the world `vms`."""

    def __init__(self, path: Path, config: VmsESConfig, scenario: str, *, resume: bool) -> None:
        gain = "% less wait than the best rule"
        identity = Identity(
            "es", "linear", (scenario,), asdict(config), config.seed, "vms", VERSION, gain=gain
        )
        super().__init__(path, identity, lambda found: {"weights": found.weights}, resume=resume)

    def _counts(self, generation: VmsGeneration) -> dict[str, int]:
        return {"decisions": generation.decisions}
