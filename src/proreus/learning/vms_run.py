"""What `proreus train vms --algo es` keeps: the journal that a resumed run replays, and the best checkpoint."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proreus.cluster.columns import F64
from proreus.encoding.vms import VERSION
from proreus.learning.runs import RunFolder, code_version
from proreus.learning.vms_es import VmsESConfig, VmsGeneration
from proreus.policies.checkpoint import Card, Checkpoint


class VmsEvolutionRun:
    """The run folder of an evolution in the world `vms`: one journal line per generation."""

    def __init__(self, path: Path, config: VmsESConfig, scenario: str, *, resume: bool) -> None:
        self._config, self._scenario = config, scenario
        settings = {"algorithm": "es", "world": "vms", "scenarios": [scenario], "config": asdict(config)}
        # JSON knows lists and no tuples; a resumed run compares what it reads.
        settings["config"]["servers"] = list(config.servers)
        self._folder = RunFolder(path, settings, resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = [entry["validation"] for entry in self._folder.past if entry["validation"]]
        self._best = min((_score(each) for each in judged), default=math.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in self._folder.past)
        self._decisions = sum(entry["decisions"] for entry in self._folder.past)

    def add(self, generation: VmsGeneration) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        self._decisions += generation.decisions
        mean = float(np.mean(generation.fitness))
        scalars = {"fitness/mean": mean, "fitness/best": max(generation.fitness), "sigma": generation.sigma}
        line = f"generation {generation.number + 1}: fitness {mean:.3f}, best {max(generation.fitness):.3f}"
        line += f", sigma {generation.sigma:.3f}"
        validation = generation.validation
        if validation is not None:
            self._validation = validation
            scalars |= {f"validation/{name}": value for name, value in validation.items()}
            waits = ", ".join(f"{name} {value:,.0f} s" for name, value in validation.items())
            line += f"; held out: {waits}"
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", self._checkpoint(generation.weights, generation.number, validation))
            if _score(validation) < self._best:
                self._best = _score(validation)
                self._folder.save("best", self._checkpoint(generation.weights, generation.number, validation))
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "validation": validation,
            "decisions": generation.decisions,
            "seconds": generation.seconds,
        }
        self._folder.record(entry, scalars, generation.number)
        return line

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": "es",
            "validation": self._validation,
            "decisions": self._decisions,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, weights: F64, number: int, validation: dict[str, float]) -> Checkpoint:
        card = Card(
            world="vms",
            kind="linear",
            algorithm="es",
            encoding=VERSION,
            config=asdict(self._config),
            seed=self._config.seed,
            commit=code_version(),
            trained_on=(self._scenario,),
            scores={f"validation {name}": value for name, value in validation.items()},
            steps=number + 1,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(self._seconds, 1),
        )
        return Checkpoint(card, {"weights": weights})


def _score(validation: dict[str, float]) -> float:
    """Lower is better: the geometric mean over what was judged, so that no size of cluster outweighs others."""
    return float(np.mean(np.log1p(list(validation.values()))))
