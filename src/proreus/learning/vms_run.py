"""What `proreus train vms` keeps: the journal that a resumed run replays, and the best checkpoint."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proreus.encoding.vms import VERSION
from proreus.learning.runs import RunFolder, code_version, judgements, mean_gain
from proreus.learning.vms_es import VmsESConfig, VmsGeneration
from proreus.policies.checkpoint import Card, Checkpoint


class VmsEvolutionRun:
    """The run folder of an evolution in the world `vms`: one journal line per generation."""

    def __init__(self, path: Path, config: VmsESConfig, scenario: str, *, resume: bool) -> None:
        self._config, self._scenario = config, scenario
        settings = {
            "world": "vms",
            "algorithm": "es",
            "kind": "linear",
            "scenarios": [{"name": scenario, "options": {}}],
            "config": asdict(config),
            "seed": config.seed,
        }
        self._folder = RunFolder(path, settings, resume=resume)
        past = self._folder.past
        self.past_fitness = [entry["fitness"] for entry in past]
        judged = judgements(past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in past)
        self._decisions = sum(entry["decisions"] for entry in past)

    def add(self, generation: VmsGeneration) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        self._decisions += generation.decisions
        mean, best = float(np.mean(generation.fitness)), max(generation.fitness)
        scalars = {"fitness/mean": mean, "fitness/best": best, "sigma": generation.sigma}
        line = f"generation {generation.number + 1}: fitness {mean:.3f}, best {best:.3f}"
        line += f", sigma {generation.sigma:.3f}"
        validation = generation.validation
        if validation is not None:
            self._validation = validation
            scalars |= {f"validation/{name}": value for name, value in validation.items()}
            line += f"; held out: {mean_gain(validation):+.1f} % less wait than the best rule"
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", self._checkpoint(generation, validation))
            if mean_gain(validation) > self._best:
                self._best = mean_gain(validation)
                self._folder.save("best", self._checkpoint(generation, validation))
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
            "best_gain": self._best if np.isfinite(self._best) else None,
            "validation": self._validation,
            "decisions": self._decisions,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, generation: VmsGeneration, validation: dict[str, float]) -> Checkpoint:
        card = Card(
            world="vms",
            kind="linear",
            algorithm="es",
            encoding=VERSION,
            config=asdict(self._config),
            seed=self._config.seed,
            commit=code_version(),
            trained_on=(self._scenario,),
            scores={f"% less wait than the best rule, {name}": value for name, value in validation.items()},
            steps=generation.number + 1,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(self._seconds, 1),
        )
        return Checkpoint(card, {"weights": generation.weights})
