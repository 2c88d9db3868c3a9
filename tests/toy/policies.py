"""Rules are vectors of weights over the features of an action, and so is what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.policies.catalogue import AnyPolicy, Catalogue, CheckpointKind, Rule
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.protocol import Explanation, Verdict
from tests.toy.model import FEATURES, VERSION, ToyObservation, encode, rows_of

PLACES = ("fast server", "slow server", "the line")
SHORTEST = np.array([-1.0, 0.0, 0.0, 0.0, -10.0])
FAST = np.array([0.0, 0.0, 2.0, 1.0, 0.0])


class Scored:
    """The action with the highest score."""

    def __init__(self, name: str, weights: F64) -> None:
        self.name, self._weights = name, weights

    def decide(self, observation: ToyObservation) -> int:
        """The best of the legal actions, the first of equals."""
        scores = rows_of(observation).astype(np.float64) @ self._weights
        return int(np.argmax(np.where(observation.action_mask(), scores, -np.inf)))

    def explain(self, observation: ToyObservation) -> Explanation:
        """The scores."""
        chosen, rows = self.decide(observation), rows_of(observation) * self._weights
        verdicts = [
            Verdict(place, "" if legal else "no room", dict(zip(FEATURES, row, strict=True)), sum(row))
            for place, row, legal in zip(PLACES, rows.tolist(), observation.action_mask(), strict=True)
        ]
        message = f"goes to {PLACES[chosen]}"
        return Explanation(self.name, str(observation.job), chosen, tuple(verdicts), "", message)

    def fresh(self, seed: int) -> Scored:
        """The same: it remembers nothing."""
        return self


class AnyServer:
    """A legal action by chance."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def decide(self, observation: ToyObservation) -> int:
        """Any of them."""
        return int(self._draw.choice(np.flatnonzero(observation.action_mask())))

    def fresh(self, seed: int) -> AnyServer:
        """With other dice."""
        return AnyServer(seed)


def _linear(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> Scored:
    weights = checkpoint.tensors.get("weights")
    if weights is None or weights.shape != SHORTEST.shape:
        raise InputError(f"needs {SHORTEST.size} weights", file=folder, field="weights")
    return Scored(name, weights.astype(np.float64))


def _actor(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> AnyPolicy:
    from proreus.policies.networks.actor_policy import ActorPolicy, actor_of  # torch, for this kind alone

    return ActorPolicy(name, actor_of(checkpoint.tensors), encode)


POLICIES = Catalogue(
    world="toy",
    rules={
        "shortest": Rule("the server that is done first", lambda name, options, seed: Scored(name, SHORTEST)),
        "fast": Rule("the fast server while it has room", lambda name, options, seed: Scored(name, FAST)),
        "random": Rule("any server, or the line", lambda name, options, seed: AnyServer(seed)),
    },
    main=("shortest", "fast", "random"),
    kinds={"linear": CheckpointKind(VERSION, _linear), "actor": CheckpointKind(VERSION, _actor)},
    shipped=Path(__file__).parent / "pretrained" / "toy",
)
