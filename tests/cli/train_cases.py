"""Training commands small enough for tests, and what their runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proreus.learning.run_folder import read_journal

EVOLUTION = (
    *("--scenarios", "gpu@6", "--population", "4", "--train-seeds", "2", "--validation-seeds", "1"),
    *("--evaluate-every", "2"),
)
DDQN = (
    *("--algo", "ddqn", "--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1", "--hidden", "16"),
    *("--validation-seeds", "1", "--warm-up", "64", "--report-every", "100", "--evaluate-every", "2"),
)
PPO = (
    *("--algo", "ppo", "--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1", "--lanes", "8"),
    *("--validation-seeds", "1", "--rollout-steps", "16", "--evaluate-every", "2", "--steps", "768"),
)


def fitness(run: Path) -> list[Any]:
    """What the search learned from."""
    return [entry["fitness"] for entry in read_journal(run) if entry["fitness"]]


def weights(run: Path, which: str = "best") -> bytes:
    """The numbers of a run's checkpoint."""
    return (run / which / "weights.safetensors").read_bytes()
