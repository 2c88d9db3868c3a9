"""What `proreus train rebalance --algo es` keeps: the journal that a resumed run replays, the best scorer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proreus.compare.deploy import WindowScenario
from proreus.encoding.deploy import VERSION
from proreus.learning.deploy_es import MovesESConfig, MovesGeneration
from proreus.learning.runs import RunFolder, code_version, judgements, mean_gain
from proreus.policies.checkpoint import Card, Checkpoint
from proreus.policies.deploy.catalogue import KIND

WORLD = "rebalance"


class MovesRun:
    """The run folder of an evolution of moves: one journal line per generation."""

    def __init__(
        self, path: Path, config: MovesESConfig, scenarios: Sequence[WindowScenario], *, resume: bool
    ) -> None:
        self._config = config
        self._names = tuple(scenario.name for scenario in scenarios)
        settings = {
            "world": WORLD,
            "algorithm": "es",
            "kind": KIND,
            "scenarios": [
                {"name": scenario.name, "options": asdict(scenario.options)} for scenario in scenarios
            ],
            "config": asdict(config),
            "seed": config.seed,
        }
        self._folder = RunFolder(path, settings, resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = judgements(self._folder.past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in self._folder.past)

    def add(self, generation: MovesGeneration) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        gain, best = float(np.mean(generation.fitness)), max(generation.fitness)
        scalars = {"fitness/mean": gain, "fitness/best": best, "sigma": generation.sigma}
        line = f"generation {generation.number + 1}: gain {gain:+.3f}, best {best:+.3f}"
        line += f", sigma {generation.sigma:.3f}"
        if generation.validation is not None:
            self._validation = generation.validation
            scalars |= {f"validation/{name}": value for name, value in generation.validation.items()}
            held_out = mean_gain(generation.validation)
            line += f", held out {held_out:+.3f}"
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", self._checkpoint(generation))
            if held_out > self._best:
                self._best = held_out
                self._folder.save("best", self._checkpoint(generation))
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "validation": generation.validation,
            "seconds": generation.seconds,
        }
        self._folder.record(entry, scalars, generation.number)
        return line

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": "es",
            "best_gain": self._best if np.isfinite(self._best) else None,
            "validation": self._validation,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, generation: MovesGeneration) -> Checkpoint:
        assert generation.validation is not None, "checked by the caller"
        card = Card(
            world=WORLD,
            kind=KIND,
            algorithm="es",
            encoding=VERSION,
            config=asdict(self._config),
            seed=self._config.seed,
            commit=code_version(),
            trained_on=self._names,
            scores={f"gain over hotspot, {name}": value for name, value in generation.validation.items()},
            steps=generation.number + 1,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(self._seconds, 1),
        )
        return Checkpoint(card, {"weights": generation.weights})
