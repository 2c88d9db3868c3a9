"""The checkpoints of a run: the latest, and the best, which begins as the start and is never worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.learning.improvement import Improvement, same_weights
from proreus.learning.run_folder import RunFolder, RunIdentity, judgements, mean_gain
from proreus.policies.checkpoint import Checkpoint, load_checkpoint

BEST, LAST = "best", "last"


class Best:
    """Chooses among what was judged, and keeps it."""

    def __init__(self, folder: RunFolder, identity: RunIdentity, start: int) -> None:
        self._folder, self._identity, self._start = folder, identity, start
        judged = judgements(folder.past)
        self._gain = max(map(mean_gain, judged), default=-np.inf)
        self.validation: dict[str, float] = judged[-1] if judged else {}
        """What the latest judgement came to."""
        gains = [mean_gain(judgement) for judgement in judged]
        self.since = len(gains) - 1 - gains.index(self._gain) if gains else 0
        """Judgements since the best was found."""

    @property
    def began(self) -> bool:
        """Whether the start was judged: runs of older code did not."""
        return any(self._is_start(entry) for entry in self._folder.past)

    @property
    def gain(self) -> float | None:
        """The best mean gain so far."""
        return self._gain if np.isfinite(self._gain) else None

    @property
    def tensors(self) -> Arrays:
        """Of the best checkpoint."""
        return load_checkpoint(self._folder.path / BEST, self._identity.encoding).tensors

    def begin(self, tensors: Arrays, entry: Mapping[str, Any]) -> None:
        """Record the start, with what it came to: it is the best until something is better."""
        validation = entry["validation"]
        if mean_gain(validation) >= self._gain:
            self._gain = mean_gain(validation)
            self._folder.save(BEST, self._checkpoint(tensors, validation, (0, entry["seconds"])))
        self.validation = self.validation or validation
        self._folder.begin(entry, {f"validation/{name}": gain for name, gain in validation.items()})

    def keep(self, tensors: Arrays, validation: dict[str, float], spent: tuple[int, float]) -> bool:
        """Write the latest checkpoint, and the best where this one is; whether it is. spent: steps (or
        generations), seconds."""
        self.validation = validation
        self.keep_last(tensors, validation, spent)
        self.since += 1
        if mean_gain(validation) <= self._gain:
            return False
        self._gain, self.since = mean_gain(validation), 0
        self._folder.save(BEST, self._checkpoint(tensors, validation, spent))
        return True

    def keep_last(self, tensors: Arrays, validation: Mapping[str, float], spent: tuple[int, float]) -> None:
        """Write the latest checkpoint, whether it was judged or not."""
        self._folder.save(LAST, self._checkpoint(tensors, validation, spent))

    def end(self, improvement: Improvement, start: Arrays, seconds: float) -> None:
        """Keep what the best checkpoint was found to be; where it is no better, the start takes its place."""
        if improvement.better is None and not same_weights(self.tensors, start):
            judged = next(entry for entry in self._folder.past if self._is_start(entry))
            self._folder.save(BEST, self._checkpoint(start, judged["validation"], (0, seconds)))
        self._folder.keep_improvement(improvement.to_json())

    def _is_start(self, entry: Mapping[str, Any]) -> bool:
        return int(entry.get("generation", entry.get("update"))) == self._start

    def _checkpoint(
        self, tensors: Arrays, validation: Mapping[str, float], spent: tuple[int, float]
    ) -> Checkpoint:
        scores = {f"{self._identity.gain}, {name}": value for name, value in validation.items()}
        return Checkpoint(self._identity.card(scores, *spent), tensors)
