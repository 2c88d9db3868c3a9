"""What a run of PPO keeps: the learner's whole state, the journal up to it, the best checkpoint.

The state is saved every few updates and when the run ends or is interrupted; a resumed run takes it up
and goes on bit for bit as if nothing had happened. What the journal says after the saved state is
dropped: it will be lived again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from proreus.encoding.pods import VERSION
from proreus.learning.runs import JOURNAL, RunFolder, code_version
from proreus.model.errors import InputError
from proreus.model.files import write_atomically
from proreus.policies.checkpoint import Card, Checkpoint

STATE = "state.safetensors"
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Identity:
    """What a run is: goes into its settings and onto the cards of its checkpoints."""

    algorithm: str
    kind: str
    """Of the policy."""
    scenarios: tuple[str, ...]
    config: Mapping[str, Any]
    seed: int
    encoding: str = VERSION
    """What the policy sees."""


class GradientRun:
    """The run folder of a gradient-based learner."""

    def __init__(self, path: Path, identity: Identity, *, resume: bool) -> None:
        self.path, self._identity = path, identity
        self.saved: Arrays | None = None
        settings = {"world": "pods", **asdict(identity), "scenarios": list(identity.scenarios)}
        if resume:
            self._forget_after_state(path)
        self._folder = RunFolder(path, settings, resume=resume)
        judged = [entry["validation"] for entry in self._folder.past if entry["validation"]]
        self._best = max((_mean(each) for each in judged), default=-np.inf)
        self._validation: dict[str, float] = judged[-1] if judged else {}
        self._begin = time.perf_counter()
        self._before = self._folder.past[-1]["seconds"] if self._folder.past else 0.0

    def _forget_after_state(self, path: Path) -> None:
        """Read the saved state and cut the journal back to it."""
        state, journal = path / STATE, path / JOURNAL
        if not state.exists():
            journal.unlink(missing_ok=True)  # interrupted before anything was saved: start over
            return
        try:
            self.saved = read_tensors(state.read_bytes())
        except (OSError, SafetensorError) as error:
            raise InputError(f"cannot be resumed: {error}", file=state) from error
        update = int(self.saved.pop("update")[0])
        lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["update"] <= update]
        write_atomically(journal, "".join(kept).encode())

    def add(self, update: int, scalars: Mapping[str, float], validation: dict[str, float] | None) -> None:
        """Record one update durably."""
        if validation:
            self._validation = validation
        entry = {"update": update, **scalars, "validation": validation, "seconds": self.seconds}
        judged = {f"validation/{name}": value for name, value in (validation or {}).items()}
        finite = {name: value for name, value in scalars.items() if np.isfinite(value)}
        self._folder.record(entry, {**finite, **judged}, update)

    def save_state(self, update: int, arrays: Arrays) -> None:
        """Save the learner so that a resumed run goes on from here."""
        content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_atomically(self.path / STATE, write_tensors({**content, "update": np.array([update])}))

    def keep(self, tensors: Arrays, validation: dict[str, float], steps: int) -> bool:
        """Write the latest checkpoint, and the best where this one is; whether it is."""
        card = Card(
            world="pods",
            kind=self._identity.kind,
            algorithm=self._identity.algorithm,
            config=self._identity.config,
            seed=self._identity.seed,
            encoding=self._identity.encoding,
            commit=code_version(),
            trained_on=self._identity.scenarios,
            scores={f"gain over the strongest rule, {name}": value for name, value in validation.items()},
            steps=steps,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(self.seconds, 1),
        )
        checkpoint = Checkpoint(card, tensors)
        self._folder.save("last", checkpoint)
        if _mean(validation) <= self._best:
            return False
        self._best = _mean(validation)
        self._folder.save("best", checkpoint)
        return True

    @property
    def seconds(self) -> float:
        """Time spent on the run, earlier sittings included."""
        return float(self._before + time.perf_counter() - self._begin)

    def summary(self) -> dict[str, Any]:
        """The result as JSON."""
        result = {"algorithm": self._identity.algorithm, "best_gain": self._best}
        return {**result, "validation": self._validation, "seconds": self.seconds}

    def close(self) -> None:
        """Close the files."""
        self._folder.close()


def _mean(by_scenario: Mapping[str, float]) -> float:
    return float(np.mean(list(by_scenario.values())))
