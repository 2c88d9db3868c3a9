"""A run of a gradient-based learner: judged on held-out seeds, saved so that it can go on.

The learner's state is saved at every judgement and when the run is interrupted; a resumed run takes it up and
goes on bit for bit as if nothing had happened. What the journal says after the saved state is dropped: it
will be lived again. A judgement takes place when its turn has come and at no other time, so that an
interrupted run keeps the same best checkpoint as an unbroken one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from proreus.contract.lanes import Arrays
from proreus.learning.checkpoints import Best
from proreus.learning.improvement import Improvement
from proreus.learning.run_folder import JOURNAL, RunFolder, RunIdentity, read_journal
from proreus.learning.step import Update
from proreus.model.errors import InputError
from proreus.model.files import write_atomically

STATE = "state.safetensors"
START = 0
"""The update before the first, in the journal: the start."""


@dataclass(frozen=True)
class UpdateReport:
    """One update, and what came of judging it."""

    update: Update
    validation: dict[str, float] | None
    """Gain over the strongest rule on held-out seeds, by scenario, where it was judged."""
    is_best: bool
    start: dict[str, float] | None = None
    """The same of the start, where it was judged just now: with the first update."""


@dataclass(frozen=True)
class EvaluationTurns:
    """When a run is judged."""

    every: int
    """Updates between two judgements."""
    patience: int = 0
    """It ends after so many judgements without a new best; 0: never."""

    def are_over(self, best: Best) -> bool:
        """Whether nothing better is to be hoped for."""
        return 0 < self.patience <= best.since


def live(
    run: GradientRun,
    updates: Iterator[Update],
    judge: Callable[[Arrays], dict[str, float]],
    *,
    turns: EvaluationTurns,
    stopped: Callable[[], bool],
    begin: Callable[[Iterable[str]], dict[str, float]],
) -> Iterator[UpdateReport]:
    """Live through the updates, until it gets no better, or until `stopped` says so between two; all that is
    learned is kept.

    `begin` judges and records the start; it hears the names of the figures that updates have. It does so once
    there is an update to record: what cannot be trained on leaves nothing behind.
    """
    if turns.are_over(run.best):
        return
    for update in updates:
        start = None if run.best.began else begin(update.figures)
        validation, is_best = None, False
        if update.number % turns.every == 0 or update.number == update.total:
            tensors = update.tensors()
            validation = judge(tensors)
            is_best = run.keep(tensors, validation, update)
        interrupted = update.number < update.total and stopped()
        if interrupted and validation is None:
            run.keep_last(update.tensors(), update)
        run.add(update, validation)
        if interrupted or validation is not None:
            run.save_state(update)
        yield UpdateReport(update, validation, is_best, start)
        if interrupted or turns.are_over(run.best):
            return


class GradientRun:
    """The run folder of a gradient-based learner."""

    def __init__(self, path: Path, identity: RunIdentity, *, resume: bool) -> None:
        self.path, self.algorithm = path, identity.algorithm
        self.saved: Arrays | None = None
        if resume:
            self._forget_after_state(path)
        self._folder = RunFolder(path, identity, resume=resume)
        self.best = Best(self._folder, identity, START)
        past = self._folder.past
        self._begin = time.perf_counter()
        self._before = past[-1]["seconds"] if past else 0.0
        self.steps = int(past[-1]["steps"]) if past else 0
        """Learned from so far."""

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

    def begin(self, tensors: Arrays, validation: dict[str, float], figures: Iterable[str]) -> None:
        """Record what the start came to; of the figures of an update, it has none but the steps."""
        entry = {
            "update": START,
            **dict.fromkeys(figures),
            "steps": 0.0,
            "validation": validation,
            "seconds": self.seconds,
        }
        self.best.begin(tensors, entry)

    def add(self, update: Update, validation: dict[str, float] | None) -> None:
        """Record one update durably."""
        self.steps = int(update.figures["steps"])
        finite = {name: value for name, value in update.figures.items() if np.isfinite(value)}
        entry = {
            "update": update.number,
            **{name: finite.get(name) for name in update.figures},  # JSON knows no NaN
            "validation": validation,
            "seconds": self.seconds,
        }
        judged = {f"validation/{name}": value for name, value in (validation or {}).items()}
        self._folder.record(entry, {**finite, **judged}, update.number)

    def save_state(self, update: Update) -> None:
        """Save the learner so that a resumed run goes on from here."""
        content = {name: np.ascontiguousarray(array) for name, array in update.state().items()}
        write_atomically(self.path / STATE, write_tensors({**content, "update": np.array([update.number])}))

    def keep(self, tensors: Arrays, validation: dict[str, float], update: Update) -> bool:
        """Write the latest checkpoint, and the best where this one is; whether it is."""
        return self.best.keep(tensors, validation, (int(update.figures["steps"]), self.seconds))

    def keep_last(self, tensors: Arrays, update: Update) -> None:
        """Write the latest checkpoint, which was not judged."""
        self.best.keep_last(tensors, {}, (int(update.figures["steps"]), self.seconds))

    def end(self, improvement: Improvement, start: Arrays) -> None:
        """Keep what the best checkpoint was found to be."""
        self.best.end(improvement, start, self.seconds)

    @property
    def seconds(self) -> float:
        """Time spent on the run, earlier sittings included."""
        return float(self._before + time.perf_counter() - self._begin)

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "algorithm": self.algorithm,
            "steps": self.steps,
            "best_gain": self.best.gain,
            "validation": self.best.validation,
            "seconds": self.seconds,
        }

    def close(self) -> None:
        self._folder.close()
