"""What an evolution strategy keeps, in any world: a journal that a resumed run replays, the best checkpoint.

`PodsEvolutionRun` is that of pods; `vms_run` and `deploy_run` have those of their worlds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from proreus.learning.runs import Identity, RunFolder, judgements, mean_gain
from proreus.policies.checkpoint import Checkpoint
from proreus.worlds.pods.policies.learned import linear_tensors
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.goal import START_RULE, ESConfig, Generation


class Evolved(Protocol):
    """What one generation came to."""

    @property
    def number(self) -> int:
        """Counted from 0."""
        ...

    @property
    def fitness(self) -> tuple[float, ...]:
        """Of each member; more is better."""
        ...

    @property
    def sigma(self) -> float:
        """Width of the population."""
        ...

    @property
    def validation(self) -> dict[str, float] | None:
        """Held-out gain of the mean by scenario, where it was judged."""
        ...

    @property
    def seconds(self) -> float:
        """That it took."""
        ...


G = TypeVar("G", bound=Evolved)
Tensors = Callable[[G], Mapping[str, NDArray[Any]]]
"""The mean of a generation's search distribution, as a checkpoint stores it."""


class EvolutionRun(Generic[G]):
    """The run folder of an evolution: one journal line per generation."""

    def __init__(self, path: Path, identity: Identity, tensors: Tensors[G], *, resume: bool) -> None:
        self._identity, self._tensors = identity, tensors
        self._folder = RunFolder(path, identity.settings(), resume=resume)
        self.past_fitness = [entry["fitness"] for entry in self._folder.past]
        judged = judgements(self._folder.past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._seconds = sum(entry["seconds"] for entry in self._folder.past)
        self._totals: Counter[str] = sum((Counter(entry["counts"]) for entry in self._folder.past), Counter())

    def add(self, generation: G) -> str:
        """Record a generation durably, keep its checkpoint where it is the best, say how it went."""
        self._seconds += generation.seconds
        counts = self._counts(generation)
        self._totals.update(counts)
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
            # Checkpoints first: what the journal counts as judged must exist.
            self._folder.save("last", self._checkpoint(generation, validation))
            if gain > self._best:
                self._best = gain
                self._folder.save("best", self._checkpoint(generation, validation))
                line += " (best so far)"
        entry = {
            "generation": generation.number,
            "fitness": list(generation.fitness),
            "sigma": generation.sigma,
            "validation": validation,
            "counts": counts,
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

    def _counts(self, generation: G) -> dict[str, int]:
        """What a world counts of a generation, by name; the summary has the sums."""
        del generation
        return {}

    def _checkpoint(self, generation: G, validation: Mapping[str, float]) -> Checkpoint:
        scores = {f"{self._identity.gain}, {name}": value for name, value in validation.items()}
        card = self._identity.card(scores, generation.number + 1, self._seconds)
        return Checkpoint(card, dict(self._tensors(generation)))


class PodsEvolutionRun(EvolutionRun[Generation]):
    """That of a linear scorer of pods."""

    def __init__(self, path: Path, config: ESConfig, scenarios: Sequence[Scenario], *, resume: bool) -> None:
        gain = f"gain over {START_RULE}"
        identity = Identity("es", "linear", tuple(scenarios), asdict(config), config.seed, gain=gain)
        super().__init__(path, identity, lambda found: linear_tensors(found.scorer), resume=resume)
