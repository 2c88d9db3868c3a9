"""Adapter to Stable-Baselines3: vector environments that its algorithms, and sb3-contrib's, take as they are.

Needs the extra `sb3`; nothing else imports this module. `MaskablePPO` finds the masks by the method
`action_masks` of the environments; for algorithms without masks (`DQN`, `PPO`) an illegal action counts as a
harmless one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from proreus.envs import PODS


class _MaskedObservation(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows an environment otherwise, and its masks as they are."""

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal actions of the environment inside."""
        masks: NDArray[np.bool_] = self.env.get_wrapper_attr("action_masks")()
        return masks


class FlatObservation(_MaskedObservation):
    """A dict of arrays as one float32 vector, in the order of the space's names, for `MlpPolicy`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        flat = spaces.flatten_space(env.observation_space)
        assert isinstance(flat, spaces.Box), "the environments observe boxes and bits alone"
        self.observation_space = spaces.Box(
            flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32
        )

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """The observation as a vector."""
        flat = spaces.flatten(self.env.observation_space, observation)
        return np.asarray(flat, dtype=np.float32)


class VectorsObservation(_MaskedObservation):
    """A dict of arrays as a dict of vectors, for `MultiInputPolicy`.

    SB3 takes a box of three dimensions for an image and warns of one of two. Its own policies flatten both
    before their first layer, so nothing that they see is lost.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        tables = env.observation_space
        assert isinstance(tables, spaces.Dict), "an environment that observes one array has no names"
        self.observation_space = spaces.Dict({name: _as_vector(space) for name, space in tables.items()})

    def observation(self, observation: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays as vectors."""
        return {name: np.asarray(array).reshape(-1) for name, array in observation.items()}


def _as_vector(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space of the same numbers, of one dimension; those of bits have it already."""
    if not isinstance(space, spaces.Box):
        return space
    return spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.dtype.type)


def make_sb3_env(
    env_id: str = PODS,
    *,
    count: int = 1,
    seed: int = 0,
    flat: bool = True,
    max_steps: int | None = None,
    **settings: Any,
) -> DummyVecEnv:
    """`count` environments side by side, seeded `seed`, `seed` + 1, ...; `settings` go to the environment.

    `flat` makes dict observations one vector (for "MlpPolicy"); else they stay dicts, of vectors (for
    "MultiInputPolicy" and `RowsPolicy`). `max_steps` truncates episodes.
    """

    def maker(rank: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def make() -> gymnasium.Env[Any, Any]:
            # Gymnasium's passive checker would look at each step again; `check_env` has done so in the tests.
            env: gymnasium.Env[Any, Any] = gymnasium.make(
                env_id, max_episode_steps=max_steps, disable_env_checker=True, seed=seed + rank, **settings
            )
            if isinstance(env.observation_space, spaces.Dict):
                env = FlatObservation(env) if flat else VectorsObservation(env)
            return Monitor(env)

        return make

    return DummyVecEnv([maker(rank) for rank in range(count)])
