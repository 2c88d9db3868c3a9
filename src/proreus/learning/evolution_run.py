"""What an evolution strategy keeps, in any world: a journal to replay, the best checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proreus.learning.es import Generation
from proreus.learning.runs import Identity, RunFolder, judgements, mean_gain
from proreus.policies.checkpoint import Checkpoint


class EvolutionRun:
    """The run folder of an evolution: one journal line per generation."""

    def __init__(self, path: Path, identity: Identity, *, resume: bool) -> None:
        self._identity = identity
        self._folder = RunFolder(path, identity.settings(), resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = judgements(self._folder.past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in self._folder.past)
        self._totals: Counter[str] = sum((Counter(entry["counts"]) for entry in self._folder.past), Counter())

    def add(self, generation: Generation) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        self._totals.update(generation.counts)
        validation = generation.validation
        mean, best = float(np.mean(generation.fitness)), max(generation.fitness)
        scalars = {"fitness/mean": mean, "fitness/best": best, "sigma": generation.sigma}
        line = f"generation {generation.number + 1}: fitness {mean:+.3f}, best {best:+.3f}"
        line += f", sigma {generation.sigma:.3f}"
        if validation is not None:
            self._validation = validation
            scalars |= {f"validation/{name}": value for name, value in validation.items()}
            gain = mean_gain(validation)
            line += f", held out {gain:+.3f}"
            checkpoint = self._checkpoint(generation, validation)
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", checkpoint)
            if gain > self._best:
                self._best = gain
                self._folder.save("best", checkpoint)
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "validation": validation,
            "counts": generation.counts,
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
            **self._totals,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def _checkpoint(self, generation: Generation, validation: Mapping[str, float]) -> Checkpoint:
        scores = {f"{self._identity.gain}, {name}": value for name, value in validation.items()}
        card = self._identity.card(scores, generation.number + 1, self._seconds)
        return Checkpoint(card, generation.tensors())
