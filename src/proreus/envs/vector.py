"""Any world's lanes as a Gymnasium vector environment: many episodes, one call a step.

>>> import gymnasium, proreus
>>> envs = gymnasium.make_vec("proreus/Pods-v0", num_envs=64, scenario="small")
>>> observations, infos = envs.reset(seed=1)

Gymnasium finds it as "proreus.envs.vector:ID", a text, so that its specs can be written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from proreus.base_env import RAISE
from proreus.contract.lanes import Choices, SeededLanes, Steps
from proreus.envs.choices import Illegal, Observed, made, nothing_observed, observation_space, observed
from proreus.kernels.arrays import F64, I64, Bool
from proreus.model.errors import IllegalDecision, UsageError, unknown_name
from proreus.worlds import registered

Infos: TypeAlias = dict[str, Any]
"""Arrays over the lanes, each beside one, named with a `_` before, of the lanes that have something there."""
FIRST = "first"


class LanesVectorEnv(VectorEnv[Observed, I64, Any]):
    """Every lane an environment, as `envs.lanes.LanesEnv` is one of a single lane.

    Lane i of `reset(seed=s)` plays the episodes of seed s + i. A lane whose episode ends begins the next in
    the same step; the end is in `infos["final_obs"]`, zeros, and `infos["final_info"]`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  # Gymnasium's

    def __init__(
        self,
        lanes: str,
        num_envs: int = 1,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        illegal: Illegal = "first",
        **settings: Any,
    ) -> None:
        """`lanes`: "module:function" that makes them from the `settings`; the rest as for `LanesEnv`."""
        if illegal not in (FIRST, RAISE):
            raise unknown_name("illegal", str(illegal), (FIRST, RAISE))
        if render_mode is not None:
            raise UsageError("many episodes at once are not drawn: render_mode is for gymnasium.make")
        self.num_envs, self.render_mode = num_envs, None
        self.lanes: SeededLanes = made(lanes, {**settings, "count": num_envs})  # type: ignore[assignment]
        self._first_seed, self._raises, self._has_begun = seed, illegal == RAISE, False
        self._random = [seeding.np_random()[0] for _ in range(num_envs)]
        # The spaces are sized by episodes, before any seed is known.
        self._choices: Choices = self.lanes.reset(0)
        self.single_observation_space = observation_space(self._choices)
        self.single_action_space = spaces.Discrete(self._choices.legal.shape[1])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, Infos]:
        """Begin episodes, where options has a `reset_mask` in its lanes only."""
        which = self._which(options or {})
        if seed is None and not self._has_begun:
            seed = self._first_seed
        wanted = self._seeds(seed)
        seeds = {lane: self._seed(lane, wanted[lane]) for lane in np.flatnonzero(which).tolist()}
        self._choices, self._has_begun = self.lanes.reset_some(seeds), True
        nothing = np.zeros(self.num_envs, dtype=np.bool_)
        infos = {"action_mask": self._masks(which), "illegal": nothing, "own": np.zeros(self.num_envs)}
        return observed(self._choices), _held_by(which, infos)

    def step(self, actions: I64) -> tuple[Observed, F64, Bool, Bool, Infos]:
        """Take one action in every lane."""
        if not self._has_begun:
            raise UsageError("reset the environments before their first step")
        chosen, illegal = self._legal(np.asarray(actions, dtype=np.int64))
        steps = self.lanes.step(chosen)
        self._choices = steps.choices
        cut = np.zeros_like(steps.ended) if steps.truncated is None else steps.truncated
        infos = self._infos(steps, illegal)
        return observed(self._choices), steps.rewards, steps.ended & ~cut, steps.ended & cut, infos

    def action_masks(self) -> Bool:
        """bool[E, K]: the legal actions now."""
        return self._choices.legal.copy()

    def _which(self, options: dict[str, Any]) -> Bool:
        """The lanes that are to begin anew."""
        for name in options:
            if name != "reset_mask":
                raise unknown_name("option of reset", str(name), ("reset_mask",))
        which = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        if which.dtype != np.bool_ or which.shape != (self.num_envs,) or not which.any():
            raise UsageError(f"reset_mask: needs {self.num_envs} booleans, one of them true")
        return which

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        match seed:
            case None:
                return [None] * self.num_envs
            case int() | np.integer():
                return [int(seed) + lane for lane in range(self.num_envs)]
            case _ if len(seed) == self.num_envs:
                return seed
        raise UsageError(f"seed: {len(seed)} of them for {self.num_envs} environments")

    def _seed(self, lane: int, wanted: int | None) -> int:
        """Of the episodes that a lane begins: the one wanted, or the next that its generator draws."""
        if wanted is None:
            return int(self._random[lane].integers(2**31))
        self._random[lane] = seeding.np_random(wanted)[0]
        return wanted

    def _legal(self, chosen: I64) -> tuple[I64, Bool]:
        """What is carried out, and which lanes asked for something else."""
        legal = self._choices.legal
        if chosen.shape != (self.num_envs,):
            raise UsageError(f"actions: needs {self.num_envs}, of shape {chosen.shape} are none")
        known = (chosen >= 0) & (chosen < legal.shape[1])
        illegal = ~(known & legal[np.arange(self.num_envs), np.where(known, chosen, 0)])
        if illegal.any() and self._raises:
            lane = int(np.argmax(illegal))
            raise IllegalDecision(
                f"action {chosen[lane]} of environment {lane} is masked; with illegal={FIRST!r} it counts "
                f"as {FIRST}"
            )
        return np.where(illegal, legal.argmax(axis=1), chosen), illegal

    def _infos(self, steps: Steps, illegal: Bool) -> Infos:
        """Of the decisions at hand; of lanes whose episode ended also the last of it, under `final_info`."""
        everywhere, ended = np.ones_like(illegal), steps.ended
        going = {
            "action_mask": self._masks(everywhere),
            "illegal": illegal & ~ended,
            "own": np.where(ended, 0.0, steps.own),
        }
        infos = _held_by(everywhere, going)
        if ended.any():
            after: Any = np.full(self.num_envs, None, dtype=object)
            for lane in np.flatnonzero(ended).tolist():
                after[lane] = nothing_observed(self._choices)
            last = {
                "action_mask": np.where(ended[:, None], np.int8(1), np.int8(0))
                * np.ones_like(going["action_mask"]),
                "illegal": illegal & ended,
                "own": np.where(ended, steps.own, 0.0),
            }
            infos |= _held_by(ended, {"final_obs": after, "final_info": _held_by(ended, last)})
        return infos

    def _masks(self, which: Bool) -> Any:
        return np.where(which[:, None], self._choices.legal, False).astype(np.int8)


def _held_by(which: Bool, infos: Infos) -> Infos:
    """Beside each array, which lanes have something there."""
    return {**infos, **{f"_{name}": which.copy() for name in infos}}


def __getattr__(name: str) -> Any:
    """The vector environment of a Gymnasium id."""
    for world in registered().values():
        if name in world.lanes:
            return partial(LanesVectorEnv, lanes=world.lanes[name])
    raise AttributeError(f"module 'proreus.envs.vector' has no attribute {name!r}")
