"""Observations of replicas on their way to a stranger's process, and changes on their way back."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from proreus.model.errors import IllegalDecision
from proreus.policies.isolated_policy import Strangers
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.state.observation import InferenceObservation

_MOST_CHANGE = 1_000_000
"""Instances that one change may name: what is meant is looked at by whoever carries it out."""


class InferenceCodec:
    """This side; see `isolated_policy.Codec`."""

    target = f"{__name__}:InferenceShown"

    def frame(self, observation: InferenceObservation, /) -> list[bytes]:
        """All of it but the future, which nobody who runs a cluster knows."""
        return [pickle.dumps(replace(observation, future=None), protocol=5)]

    def decision(self, told: Any, /) -> Scale:
        """From JSON."""
        match told:
            case [int(), int(), int(), int()] if all(
                type(change) is int and abs(change) <= _MOST_CHANGE for change in told
            ):
                return Scale(*told)
            case _:
                raise IllegalDecision(f"{str(told)[:80]} is no change of pools")


class InferenceShown:
    """The other side; see `apart_serving.Shown`."""

    def observation(self, parts: Sequence[memoryview], /) -> InferenceObservation:
        """As it was shown there."""
        (seen,) = parts
        observation: InferenceObservation = pickle.loads(seen)  # from who started us
        return observation

    def decision(self, made: Any, observation: InferenceObservation, /) -> list[int]:
        """As JSON has it; the number of an action stands for its change."""
        if isinstance(made, int | np.integer) and not isinstance(made, bool):
            if not 0 <= made < len(observation.steps):
                raise IllegalDecision(f"{made} is not one of the {len(observation.steps)} actions")
            made = observation.steps.action(int(made))
        if not isinstance(made, Scale):
            raise IllegalDecision(f"{type(made).__name__} is no change of pools")
        changes = [made.prompt, made.token, made.mixed, made.migrate]
        if any(isinstance(change, bool) or not isinstance(change, int | np.integer) for change in changes):
            raise IllegalDecision("a change of pools is by whole numbers")
        return [int(change) for change in changes]


inference_strangers = partial(Strangers, InferenceCodec)
"""Strangers that scale replicas."""
