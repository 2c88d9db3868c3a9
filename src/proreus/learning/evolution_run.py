"""What an evolution strategy keeps, in any world: a journal to replay, the best checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.learning.checkpoints import Best
from proreus.learning.es import Generation
from proreus.learning.improvement import Improvement
from proreus.learning.run_folder import RunFolder, RunIdentity, mean_gain

START = -1
"""The generation before the first, in the journal: the start."""


class EvolutionRun:
    """The run folder of an evolution: one journal line per generation."""

    def __init__(self, path: Path, identity: RunIdentity, *, resume: bool) -> None:
        self._folder = RunFolder(path, identity, resume=resume)
        past = self._folder.past
        self.past_fitness = [entry["fitness"] for entry in past if entry["generation"] != START]
        """Of the generations that are done."""
        self.past_probes = [entry.get("probe") for entry in past if entry["generation"] != START]
        """Of their means; None in journals of before there were any."""
        self.best = Best(self._folder, identity, START)
        self._seconds = sum(entry["seconds"] for entry in past)
        self._totals: Counter[str] = sum((Counter(entry["counts"]) for entry in past), Counter())

    def begin(self, tensors: Arrays, validation: dict[str, float], seconds: float) -> None:
        """Record what the start came to."""
        self._seconds += seconds
        entry = {
            "generation": START,
            "fitness": [],
            "sigma": None,
            "probe": None,
            "validation": validation,
            "counts": {},
            "seconds": seconds,
        }
        self.best.begin(tensors, entry)

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
            scalars |= {f"validation/{name}": value for name, value in validation.items()}
            line += f", held out {mean_gain(validation):+.3f}"
            # Checkpoints first: what the journal counts as judged must exist.
            spent = (generation.number + 1, self._seconds)
            if self.best.keep(generation.tensors(), validation, spent):
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "probe": generation.probe,
            "validation": validation,
            "counts": generation.counts,
            "seconds": generation.seconds,
        }
        self._folder.record(entry, scalars, generation.number)
        return line

    def end(self, improvement: Improvement, start: Arrays) -> None:
        """Keep what the best checkpoint was found to be."""
        self.best.end(improvement, start, self._seconds)

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": "es",
            "best_gain": self.best.gain,
            "validation": self.best.validation,
            **self._totals,
            "seconds": self._seconds,
        }

    def close(self) -> None:
        self._folder.close()
