"""Choices of lanes as Gymnasium shows them: bounded dicts of arrays, of one lane or of all."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from inspect import signature
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from proreus.contract.lanes import Choices, Lanes
from proreus.model.errors import unknown_name

Observed: TypeAlias = dict[str, Any]
"""`rows` [R, F], `context` [G] and `action_mask` [K]; of a vector environment [E, ...] each."""
Illegal = Literal["first", "raise"]
_MOST = np.float32(1e6)


def observation_space(choices: Choices) -> spaces.Dict:
    """Of one lane."""
    rows, context, legal = (array[0] for array in choices)
    return spaces.Dict(
        {
            "rows": spaces.Box(-_MOST, _MOST, rows.shape, np.float32),
            "context": spaces.Box(-_MOST, _MOST, context.shape, np.float32),
            "action_mask": spaces.MultiBinary(legal.size),
        }
    )


def observed(choices: Choices) -> Observed:
    """Of all lanes."""
    return {
        "rows": np.clip(choices.rows, -_MOST, _MOST).astype(np.float32),
        "context": np.clip(choices.context, -_MOST, _MOST).astype(np.float32),
        "action_mask": choices.legal.astype(np.int8),
    }


def nothing_observed(choices: Choices) -> Observed:
    """Of one lane after the last action of an episode: nothing is to be decided."""
    return {name: np.zeros_like(array[0]) for name, array in observed(choices).items()}


def made(reference: str, settings: dict[str, Any]) -> Lanes:
    """The lanes of "module:function" with its settings."""
    module, _, name = reference.partition(":")
    make: Callable[..., Lanes] = getattr(importlib.import_module(module), name)
    for setting in settings:
        if setting not in signature(make).parameters:
            raise unknown_name("setting", setting, signature(make).parameters)
    return make(**settings)
