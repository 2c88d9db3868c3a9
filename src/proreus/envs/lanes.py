"""Any world's lanes as a Gymnasium environment: one lane, the choices that learners see, their masks.

A world names a function that makes its lanes in its `Registered` value, and has an environment; or a class of
one's own builds on `LanesEnv`.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/Toy-v0", scenario="busy")
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from proreus.base_env import WorldEnv, own_reward
from proreus.contract.lanes import Choices, Lanes
from proreus.envs.choices import Illegal, Observed, made, nothing_observed, observation_space, observed
from proreus.kernels.arrays import I64, Bool
from proreus.model.errors import UsageError

_MOST_ROWS, _MOST_FEATURES = 40, 12
"""Of a picture."""


class LanesEnv(WorldEnv):
    """One lane, one action per step.

    `reset(seed=s)` begins what `Lanes.reset(s)` begins, and without a seed the episode that the lane goes on
    with. `info` has `action_mask`, whether the action was `illegal`, and what it was worth in the world's
    `own` terms. After the last action of an episode nothing is to be decided: the observation is zeros.
    """

    def __init__(
        self,
        lanes: Lanes | str,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        illegal: Illegal = "first",
        **settings: Any,
    ) -> None:
        """`lanes`: a batch of one, or "module:function" that makes it from the `settings`.

        `illegal`: an illegal action counts as the first legal one, or raises. A `reward` that is a function
        takes the place of the world's.
        """
        own = own_reward(settings)
        super().__init__(seed=seed, render_mode=render_mode, illegal=(illegal, "first"), reward=own)
        self.lanes: Lanes = made(lanes, settings) if isinstance(lanes, str) else lanes
        if len(self.lanes) != 1:
            raise UsageError(f"an environment has one lane, not {len(self.lanes)}")
        # The spaces are sized by an episode, before any seed is known.
        self._choices: Choices = self.lanes.reset(0)
        self.action_space = spaces.Discrete(self._choices.legal.shape[1])
        self.observation_space = observation_space(self._choices)
        self._over, self._cut, self._illegal, self._own = True, False, False, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        first = not self._has_begun
        wanted = self._first_seed if seed is None and first else seed
        if wanted is not None:
            self._choices = self.lanes.reset(wanted)
        elif first or not self._over:  # else the lane has begun its next episode by itself
            self._choices = self.lanes.reset(int(self.np_random.integers(2**31)))
        return super().reset(seed=seed, options=options)

    def _begin(self, options: dict[str, Any]) -> None:
        self._over, self._cut, self._illegal, self._own = False, False, False, 0.0

    def _act(self, action: int) -> float:
        if self._over:
            raise UsageError("reset the environment before its first step, and after an episode")
        legal = self._choices.legal[0]
        self._illegal = not (0 <= action < legal.size and legal[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            action = int(np.argmax(legal))
        steps = self.lanes.step(np.array([action]))
        self._choices, self._over, self._own = steps.choices, bool(steps.ended[0]), float(steps.own[0])
        self._cut = steps.truncated is not None and bool(steps.truncated[0])
        return float(steps.rewards[0])

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        info = {"illegal": self._illegal, "own": self._own}
        return self._observed(), self._over and not self._cut, self._cut, info

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        legal: Bool = self._choices.legal[0].copy()
        return np.ones_like(legal) if self._over else legal

    def _lines(self) -> list[str]:
        """What can be chosen: lanes show rows of features, and which are legal."""
        if self._over:
            return ["the episode is over"]
        legal = np.flatnonzero(self._choices.legal[0])
        head = f"{legal.size} of {self._choices.legal[0].size} actions are legal: {_listed(legal)}"
        rows = self._choices.rows[0][:_MOST_ROWS]
        return [head, *(" ".join(f"{value:8.3g}" for value in row[:_MOST_FEATURES]) for row in rows)]

    def _observed(self) -> Observed:
        if self._over:
            return nothing_observed(self._choices)
        return {name: array[0] for name, array in observed(self._choices).items()}


def _listed(numbers: I64) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_ROWS].tolist()))
    return f"{shown}, ..." if numbers.size > _MOST_ROWS else shown
