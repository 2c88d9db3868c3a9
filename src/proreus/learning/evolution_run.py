"""What `proreus train --algo es` keeps: the journal that a resumed run replays, and the best checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proreus.compare.scenario import Scenario
from proreus.learning.es import START_RULE, ESConfig, Generation
from proreus.learning.runs import Identity, RunFolder, judgements, mean_gain
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.learned import linear_tensors


class EvolutionRun:
    """The run folder of an evolution: one journal line per generation."""

    def __init__(self, path: Path, config: ESConfig, scenarios: Sequence[Scenario], *, resume: bool) -> None:
        self._identity = Identity("es", "linear", tuple(scenarios), asdict(config), config.seed)
        self._folder = RunFolder(path, self._identity.settings(), resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = judgements(self._folder.past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
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
            mean = mean_gain(validation)
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
            "best_gain": self._best if np.isfinite(self._best) else None,
            "validation": self._validation,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, generation: Generation, validation: dict[str, float]) -> Checkpoint:
        scores = {f"gain over {START_RULE}, {name}": value for name, value in validation.items()}
        card = self._identity.card(scores, generation.number + 1, self._seconds)
        return Checkpoint(card, linear_tensors(generation.scorer))
