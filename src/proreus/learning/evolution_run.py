"""What `proreus train --algo es` keeps: the journal that a resumed run replays, and the best checkpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proreus.learning.es import ESConfig, Generation
from proreus.learning.runs import RunFolder, code_version
from proreus.policies.checkpoint import Card, Checkpoint
from proreus.policies.learned import linear_tensors


class EvolutionRun:
    """The run folder of an evolution: one journal line per generation."""

    def __init__(self, path: Path, config: ESConfig, scenarios: Sequence[str], *, resume: bool) -> None:
        self._config, self._scenarios = config, tuple(scenarios)
        settings = {
            "algorithm": "es",
            "world": "pods",
            "scenarios": list(scenarios),
            "config": asdict(config),
        }
        self._folder = RunFolder(path, settings, resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = [entry["validation"] for entry in self._folder.past if entry["validation"]]
        self._best = max((_mean(each) for each in judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in self._folder.past)

    def add(self, generation: Generation) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        validation = generation.validation
        gain = float(np.mean(generation.fitness))
        scalars = {"fitness/mean": gain, "fitness/best": max(generation.fitness), "sigma": generation.sigma}
        line = f"generation {generation.number + 1}: gain {gain:+.3f}, best {max(generation.fitness):+.3f}"
        line += f", sigma {generation.sigma:.3f}"
        if validation is not None:
            self._validation = validation
            scalars |= {f"validation/{name}": value for name, value in validation.items()}
            mean = _mean(validation)
            line += f", held out {mean:+.3f}"
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", self._checkpoint(generation, validation))
            if mean > self._best:
                self._best = mean
                self._folder.save("best", self._checkpoint(generation, validation))
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "validation": validation,
            "seconds": generation.seconds,
        }
        self._folder.record(entry, scalars, generation.number)
        return line

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": "es",
            "best_gain": self._best,
            "validation": self._validation,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, generation: Generation, validation: dict[str, float]) -> Checkpoint:
        card = Card(
            world="pods",
            kind="linear",
            algorithm="es",
            config=asdict(self._config),
            seed=self._config.seed,
            commit=code_version(),
            trained_on=self._scenarios,
            scores={f"gain over fgd, {name}": value for name, value in validation.items()},
            steps=generation.number + 1,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(self._seconds, 1),
        )
        return Checkpoint(card, linear_tensors(generation.scorer))


def _mean(by_scenario: dict[str, float]) -> float:
    return float(np.mean(list(by_scenario.values())))
