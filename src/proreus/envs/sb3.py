"""Adapter to Stable-Baselines3: vector environments that its algorithms, and sb3-contrib's, take as they are,
and a policy for `MaskablePPO` that scores every action's row with the same weights.

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
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor, nn

from proreus.envs import PODS
from proreus.model.errors import UsageError
from proreus.policies.networks.row_networks import ActorCritic


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


class RowsPolicy(MaskableMultiInputActorCriticPolicy):
    """The package's own actor and critic for `MaskablePPO`: one network scores the row of every action.

    For environments that observe a row for each action (`rows`, `context`), as vectors: `make_sb3_env(...,
    flat=False)`. What it learns of one server holds for all of them, where `MlpPolicy` learns the weights of
    each action apart.

    >>> env = make_sb3_env("proreus/VirtualMachines-v0", count=16, flat=False, encoding="rows")
    >>> model = MaskablePPO(RowsPolicy, env)
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        hidden: int = 64,
        **settings: Any,
    ) -> None:
        """`hidden`: units of a layer; the `settings` are those of SB3's policies."""
        if not isinstance(observation_space, spaces.Dict) or not {"rows", "context"} <= set(
            observation_space
        ):
            raise UsageError("RowsPolicy: the environment observes no dict of rows and context")
        self.hidden = hidden
        super().__init__(observation_space, action_space, lr_schedule, **settings)

    def _build(self, lr_schedule: Schedule) -> None:
        """SB3's place for networks: what it calls latent is already the logits, and the value."""
        network: Any = _RowsNetwork(self.observation_space, self.action_space, self.hidden)
        done: Any = nn.Identity()
        self.mlp_extractor, self.action_net, self.value_net = network, done, done
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg]  # as SB3 has it
            **self.optimizer_kwargs,
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """What a saved policy is made with again."""
        return {**super()._get_constructor_parameters(), "hidden": self.hidden}


class _RowsNetwork(nn.Module):
    """`ActorCritic` with the interface of SB3's `MlpExtractor`: features [B, D] in, logits and value out."""

    def __init__(self, seen: spaces.Space[Any], actions: spaces.Space[Any], hidden: int) -> None:
        super().__init__()
        assert isinstance(seen, spaces.Dict) and isinstance(actions, spaces.Discrete), "looked at before"
        rows, context = (spaces.flatdim(seen[name]) for name in ("rows", "context"))
        count = int(actions.n)
        if rows % count:
            raise UsageError(f"RowsPolicy: {rows} numbers are no rows of {count} actions")
        self.latent_dim_pi, self.latent_dim_vf = count, 1
        self._shape = (count, rows // count)
        # SB3 puts the entries of a dict behind each other, in the order of the space's names.
        sizes = [(name, spaces.flatdim(space)) for name, space in seen.items()]
        starts = dict(zip((name for name, _ in sizes), np.cumsum([0, *(n for _, n in sizes)]), strict=False))
        self._rows = slice(int(starts["rows"]), int(starts["rows"]) + rows)
        self._context = slice(int(starts["context"]), int(starts["context"]) + context)
        self.network = ActorCritic(hidden, rows // count, context)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(logits [B, K], value [B, 1])."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Logits [B, K]; SB3 puts the masks on."""
        return self.network.logits(*self._split(features))

    def forward_critic(self, features: Tensor) -> Tensor:
        """The value [B, 1]."""
        return self.network.values(*self._split(features)).unsqueeze(1)

    def _split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        rows = features[:, self._rows].reshape(len(features), *self._shape)
        return rows, features[:, self._context]
