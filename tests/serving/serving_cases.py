"""Small models and experiences that tests of the service share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.log.files import FileLog, FileReader
from proreus.log.folder import LogFolder
from proreus.log.protocol import LogLimits
from proreus.model.experience import Experience
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.experience_log import ExperienceLog, ExperienceReader
from proreus.serving.online.learner import Places
from proreus.worlds.pods.policies.vector.model import VectorModel, checkpoint_of, fresh_scorer

NODES = 7
STATE, ACTIONS = 2 * NODES, 2 * NODES + 2


def an_experience(seed: int, decisions: int = 5, *, masked: bool = False, version: int = 1) -> Experience:
    """Random decisions over 7 nodes; some chances unknown, some greedy."""
    random = np.random.default_rng(seed)
    log_probs = np.log(random.uniform(0.01, 1.0, decisions))
    log_probs[random.random(decisions) < 0.2] = np.nan
    return Experience(
        states=random.random((decisions, STATE)),
        actions=random.integers(0, ACTIONS, decisions),
        rewards=random.normal(size=decisions),
        dones=random.random(decisions) < 0.2,
        log_probs=log_probs,
        greedy=random.random(decisions) < 0.3,
        model_version=version,
        actions_dim=ACTIONS,
        masks=random.random((decisions, ACTIONS)) < 0.7 if masked else None,
    )


def same(experience: Experience, other: Experience) -> bool:
    """Equal bit for bit."""
    arrays = ("states", "actions", "rewards", "dones", "log_probs", "greedy")
    if any(getattr(experience, name).tobytes() != getattr(other, name).tobytes() for name in arrays):
        return False
    masks = (experience.masks is None) == (other.masks is None) and (
        experience.masks is None or other.masks is None or np.array_equal(experience.masks, other.masks)
    )
    return masks and (experience.model_version, experience.actions_dim) == (
        other.model_version,
        other.actions_dim,
    )


def bandit_worth(states: F64, actions: I64) -> F64:
    """The rewards of a world in which the least full node is the right one: 15 for it, else 5."""
    best = states[:, :STATE].reshape(len(states), NODES, 2).max(axis=2).argmin(axis=1)
    return np.where(actions == best, 15.0, 5.0)


def played(model: VectorModel, seed: int, decisions: int, version: int = 1) -> Experience:
    """Decisions that the model drew in that world."""
    random = np.random.default_rng(seed)
    states = random.random((decisions, STATE))
    actions, log_probs = model.decide_batch(states, ACTIONS, None, random.random(decisions))
    return Experience(
        states=states,
        actions=actions,
        rewards=bandit_worth(states, actions),
        dones=np.ones(decisions, dtype=np.bool_),
        log_probs=log_probs,
        greedy=np.zeros(decisions, dtype=np.bool_),
        model_version=version,
        actions_dim=ACTIONS,
    )


def true_worth(model: VectorModel, decisions: int = 4000) -> float:
    """The mean reward of a model in that world, measured by playing."""
    return float(played(model, 99, decisions).rewards.mean())


def a_store(folder: Path, seed: int = 0) -> ModelStore:
    """A store with one fresh model, "vector"."""
    store = ModelStore.open(folder)
    store.add("vector", checkpoint_of(fresh_scorer(seed), "none"), "fresh")
    return store


def experience_log(
    folder: Path, limits: LogLimits | None = None, released: Callable[[], int] = lambda: 0
) -> ExperienceLog:
    """One in files."""
    return ExperienceLog(FileLog(folder, limits, released))


def experience_reader(folder: Path, since: int = 0) -> ExperienceReader:
    """Of such a log."""
    return ExperienceReader(FileReader(folder, since), since)


def places(folder: Path) -> Places:
    """Where a learner of `a_store(folder / "models")` finds things."""
    log = folder / "log"
    return Places(folder / "models", "vector", log, (LogFolder(log),))
