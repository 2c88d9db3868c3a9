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


class FlatObservation(gymnasium.ObservationWrapper[NDArray[np.float32], Any, Any]):
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

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal actions of the environment inside."""
        masks: NDArray[np.bool_] = self.env.get_wrapper_attr("action_masks")()
        return masks


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

    `flat` makes dict observations vectors (for "MlpPolicy"; else use "MultiInputPolicy"), `max_steps`
    truncates episodes.
    """

    def maker(rank: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def make() -> gymnasium.Env[Any, Any]:
            # Gymnasium's passive checker would look at each step again; `check_env` has done so in the tests.
            env: gymnasium.Env[Any, Any] = gymnasium.make(
                env_id, max_episode_steps=max_steps, disable_env_checker=True, seed=seed + rank, **settings
            )
            if flat and isinstance(env.observation_space, spaces.Dict):
                env = FlatObservation(env)
            return Monitor(env)

        return make

    return DummyVecEnv([maker(rank) for rank in range(count)])
