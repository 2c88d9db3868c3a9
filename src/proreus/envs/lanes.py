"""Any world's lanes as a Gymnasium environment: one lane, the choices that learners see, their masks.

A world names a function that makes its lanes in its `Registered` value, and has an environment; or a class of
one's own builds on `LanesEnv`.

>>> import gymnasium, proreus.envs
>>> env = gymnasium.make("proreus/Toy-v0", scenario="busy")
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from inspect import signature
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from proreus.contract.lanes import Choices, Lanes
from proreus.kernels.arrays import Bool
from proreus.model.errors import IllegalDecision, UsageError, unknown_name

Observed: TypeAlias = dict[str, Any]
"""`rows` [R, F], `context` [G] and `action_mask` [K]."""
Illegal = Literal["raise", "first"]
_MOST = np.float32(1e6)


class LanesEnv(gymnasium.Env[Observed, np.int64]):
    """One lane, one action per step.

    `reset(seed=s)` begins what `Lanes.reset(s)` begins, and without a seed the episode that the lane goes on
    with. `info` has `action_mask`, whether the action was `illegal`, and what it was worth in the world's
    `own` terms. After the last action of an episode nothing is to be decided: the observation is zeros.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self,
        lanes: Lanes | str,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        illegal: Illegal = "raise",
        **settings: Any,
    ) -> None:
        """`lanes`: a batch of one, or "module:function" that makes it from the `settings`.

        `illegal`: an illegal action raises, or counts as the first legal one where there are no masks.
        """
        if illegal not in ("raise", "first"):
            raise unknown_name("illegal", str(illegal), ("raise", "first"))
        if render_mode is not None:
            raise UsageError(f"render_mode: {render_mode!r}, and lanes are not drawn")
        self.render_mode, self._illegal, self._first_seed = render_mode, illegal, seed
        self.lanes: Lanes = _made(lanes, settings) if isinstance(lanes, str) else lanes
        if len(self.lanes) != 1:
            raise UsageError(f"an environment has one lane, not {len(self.lanes)}")
        # The spaces are sized by an episode, before any seed is known.
        self._choices: Choices = self.lanes.reset(0)
        rows, context, legal = (array[0] for array in self._choices)
        self.action_space = spaces.Discrete(legal.size)
        self.observation_space = spaces.Dict(
            {
                "rows": spaces.Box(-_MOST, _MOST, rows.shape, np.float32),
                "context": spaces.Box(-_MOST, _MOST, context.shape, np.float32),
                "action_mask": spaces.MultiBinary(legal.size),
            }
        )
        self._begun, self._over = False, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode."""
        first = not self._begun
        if seed is None and first:
            seed = self._first_seed
        super().reset(seed=seed)
        if seed is not None:
            self._choices = self.lanes.reset(seed)
        elif first or not self._over:  # else the lane has begun its next episode by itself
            self._choices = self.lanes.reset(int(self.np_random.integers(2**31)))
        self._begun, self._over = True, False
        return self._observed(), {"action_mask": self.action_masks(), "illegal": False, "own": 0.0}

    def step(self, action: np.int64 | int) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        if self._over:
            raise UsageError("reset the environment before its first step, and after an episode")
        legal, chosen = self._choices.legal[0], int(action)
        illegal = not (0 <= chosen < legal.size and legal[chosen])
        if illegal:
            if self._illegal == "raise":
                raise IllegalDecision(f"action {chosen} is masked")
            chosen = int(np.argmax(legal))
        steps = self.lanes.step(np.array([chosen]))
        self._choices, self._over = steps.choices, bool(steps.ended[0])
        info = {"action_mask": self.action_masks(), "illegal": illegal, "own": float(steps.own[0])}
        truncated = steps.truncated is not None and bool(steps.truncated[0])
        return self._observed(), float(steps.rewards[0]), self._over and not truncated, truncated, info

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        legal: Bool = self._choices.legal[0].copy()
        return np.ones_like(legal) if self._over else legal

    def _observed(self) -> Observed:
        seen = {
            "rows": np.clip(self._choices.rows[0], -_MOST, _MOST).astype(np.float32),
            "context": np.clip(self._choices.context[0], -_MOST, _MOST).astype(np.float32),
            "action_mask": self._choices.legal[0].astype(np.int8),
        }
        return {name: np.zeros_like(array) for name, array in seen.items()} if self._over else seen


def _made(reference: str, settings: dict[str, Any]) -> Lanes:
    module, _, name = reference.partition(":")
    make: Callable[..., Lanes] = getattr(importlib.import_module(module), name)
    for setting in settings:
        if setting not in signature(make).parameters:
            raise unknown_name("setting", setting, signature(make).parameters)
    return make(**settings)
