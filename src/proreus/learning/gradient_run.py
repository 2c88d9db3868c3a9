"""A run of a gradient-based learner: judged on held-out seeds, saved so that it can go on.

The learner's state is saved at every judgement and when the run is interrupted; a resumed run takes it up and
goes on bit for bit as if nothing had happened. What the journal says after the saved state is dropped: it
will be lived again. A judgement takes place when its turn has come and at no other time, so that an
interrupted run keeps the same best checkpoint as an unbroken one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from proreus.contract.lanes import Arrays
from proreus.learning.runs import JOURNAL, Identity, RunFolder, judgements, mean_gain, read_journal
from proreus.learning.update import Update
from proreus.model.errors import InputError
from proreus.model.files import write_atomically
from proreus.policies.checkpoint import Checkpoint

STATE = "state.safetensors"


@dataclass(frozen=True)
class Report:
    """One update, and what came of judging it."""

    update: Update
    validation: dict[str, float] | None
    """Gain over the strongest rule on held-out seeds, by scenario, where it was judged."""
    is_best: bool


def live(
    run: GradientRun,
    updates: Iterator[Update],
    judge: Callable[[Arrays], dict[str, float]],
    *,
    every: int,
    stopped: Callable[[], bool],
) -> Iterator[Report]:
    """Live through the updates, or until `stopped` says so between two; all that is learned is kept."""
    for update in updates:
        validation, is_best = None, False
        if update.number % every == 0 or update.number == update.total:
            tensors = update.tensors()
            validation = judge(tensors)
            is_best = run.keep(tensors, validation, update)
        interrupted = update.number < update.total and stopped()
        if interrupted and validation is None:
            run.keep_last(update.tensors(), {}, update)
        run.add(update, validation)
        if interrupted or validation is not None:
            run.save_state(update)
        yield Report(update, validation, is_best)
        if interrupted:
            return


class GradientRun:
    """The run folder of a gradient-based learner."""

    def __init__(self, path: Path, identity: Identity, *, resume: bool) -> None:
        self.path, self.algorithm, self._identity = path, identity.algorithm, identity
        self.saved: Arrays | None = None
        if resume:
            self._forget_after_state(path)
        self._folder = RunFolder(path, identity.settings(), resume=resume)
        past = self._folder.past
        judged = judgements(past)
        self._best = max(map(mean_gain, judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._begin = time.perf_counter()
        self._before = past[-1]["seconds"] if past else 0.0
        self._steps = past[-1]["steps"] if past else 0.0

    def _forget_after_state(self, path: Path) -> None:
        """Read the saved state and cut the journal back to it."""
        state, journal = path / STATE, path / JOURNAL
        if not state.exists():
            journal.unlink(missing_ok=True)  # ended before anything was saved: start over
            return
        try:
            self.saved = read_tensors(state.read_bytes())
        except (OSError, SafetensorError) as error:
            raise InputError(f"cannot be resumed: {error}", file=state) from error
        update = int(self.saved.pop("update")[0])
        kept = [entry for entry in read_journal(path) if entry["update"] <= update]
        write_atomically(journal, "".join(json.dumps(entry) + "\n" for entry in kept).encode())

    def add(self, update: Update, validation: dict[str, float] | None) -> None:
        """Record one update durably."""
        if validation:
            self._validation = validation
        self._steps = update.figures["steps"]
        entry = {
            "update": update.number,
            **update.figures,
            "validation": validation,
            "seconds": self.seconds,
        }
        judged = {f"validation/{name}": value for name, value in (validation or {}).items()}
        finite = {name: value for name, value in update.figures.items() if np.isfinite(value)}
        self._folder.record(entry, {**finite, **judged}, update.number)

    def save_state(self, update: Update) -> None:
        """Save the learner so that a resumed run goes on from here."""
        content = {name: np.ascontiguousarray(array) for name, array in update.state().items()}
        write_atomically(self.path / STATE, write_tensors({**content, "update": np.array([update.number])}))

    def keep(self, tensors: Arrays, validation: dict[str, float], update: Update) -> bool:
        """Write the latest checkpoint, and the best where this one is; whether it is."""
        checkpoint = self.keep_last(tensors, validation, update)
        if mean_gain(validation) <= self._best:
            return False
        self._best = mean_gain(validation)
        self._folder.save("best", checkpoint)
        return True

    def keep_last(self, tensors: Arrays, validation: dict[str, float], update: Update) -> Checkpoint:
        """Write the latest checkpoint, whether it was judged or not."""
        scores = {f"{self._identity.gain}, {name}": value for name, value in validation.items()}
        card = self._identity.card(scores, int(update.figures["steps"]), self.seconds)
        checkpoint = Checkpoint(card, tensors)
        self._folder.save("last", checkpoint)
        return checkpoint

    @property
    def seconds(self) -> float:
        """Time spent on the run, earlier sittings included."""
        return float(self._before + time.perf_counter() - self._begin)

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": self.algorithm,
            "steps": int(self._steps),
            "best_gain": self._best if np.isfinite(self._best) else None,
            "validation": self._validation,
            "seconds": self.seconds,
        }

    def close(self) -> None:
        """Close the files."""
        self._folder.close()
