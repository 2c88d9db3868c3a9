"""What learners ask of a batch of worlds in which requests go to servers with two NUMA nodes.

`VmsServers` is the world of virtual machines seen so. `OneLane` shows a batch of one lane the way
`learning.ddqn` wants its environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.learning.ddqn import OWN_REWARD
from proreus.model.errors import UsageError
from proreus.worlds.vms.encoding.rows import ServerRows, encode_servers
from proreus.worlds.vms.simulation.columns import Work
from proreus.worlds.vms.simulation.world import VmsOptions
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmSteps


class ServersState(NamedTuple):
    """The request at hand in each of E lanes, as `encoding.servers` describes the arrays."""

    obs: F64  # [E, N, 2, 2]
    feat: F64  # [E, 2, 2, 2]
    avail: Bool  # [E, 2 N]


class ServersEnv(Protocol):
    """E episodes side by side; one that has ended begins anew by itself."""

    @property
    def lanes(self) -> int:
        """E."""
        ...

    @property
    def size(self) -> tuple[float, float]:
        """Cpu and mem of one NUMA node."""
        ...

    @property
    def own_rewards(self) -> F64:
        """[E] what the last step was worth in the world's own terms: for reports, not for learning."""
        ...

    def reset(self, seed: int) -> ServersState:
        """Begin episodes that the seed determines."""
        ...

    def step(self, actions: I64) -> tuple[ServersState, F64, Bool]:
        """(state, rewards [E], which episodes ended with this step [E]); actions: server * 2 + NUMA."""
        ...

    def capture(self) -> dict[str, Any]:
        """The episodes as they stand, as arrays."""
        ...

    def restore(self, saved: Mapping[str, Any]) -> ServersState:
        """Go on with captured episodes."""
        ...


def rows_of(env: ServersEnv, state: ServersState) -> ServerRows:
    """The state as networks see it."""
    return encode_servers(state.obs, state.feat, state.avail, env.size)


class VmsServers:
    """Runs of the world `vms`, all servers alike, begun anew from a seed.

    With an `ending_cost`, the end of a run for want of room costs that much and nothing else counts. Where
    every placement is worth one, discounted returns of the two are the same line seen from either end, and
    rank policies alike. But then nearly all of a value is the constant 1 / (1 - discount), which networks
    take long to learn and in whose errors the differences between places drown.
    """

    def __init__(
        self,
        work: Work,
        options: VmsOptions,
        lanes: int,
        settings: BatchSettings,
        ending_cost: float = 0.0,
    ) -> None:
        if len(options.servers) != 1:
            raise UsageError("servers of several kinds: what is left is learned in shares of one size")
        self._batch = BatchedVms(work, options, lanes, settings)
        self._ending_cost = ending_cost
        self.lanes = lanes
        self.own_rewards = np.zeros(lanes)
        self.size = (float(options.servers[0].cpu), float(options.servers[0].mem))

    def reset(self, seed: int) -> ServersState:
        """Runs whose starts the seed determines."""
        self._batch.reseed(seed)
        return _state_of(self._batch.reset())

    def step(self, actions: I64) -> tuple[ServersState, F64, Bool]:
        """One choice of every run."""
        steps = self._batch.step(actions)
        self.own_rewards = steps.rewards.copy()
        rewards = self.own_rewards
        if self._ending_cost > 0.0:
            # Whoever has placed as many machines as a run has at most did not end for want of room.
            full = steps.ended & (steps.placed != self._batch.settings.limit)
            rewards = -self._ending_cost * full.astype(np.float64)
        return _state_of(steps), rewards, steps.ended

    def capture(self) -> dict[str, Any]:
        """The runs as they stand."""
        return self._batch.capture()

    def restore(self, saved: Mapping[str, Any]) -> ServersState:
        """Go on with captured runs."""
        return _state_of(self._batch.restore(saved))


def _state_of(steps: VmSteps) -> ServersState:
    """Copied: the batch overwrites its arrays with the next step."""
    return ServersState(steps.obs.astype(np.float64), steps.feat.astype(np.float64), steps.avail.copy())


class OneLane:
    """A batch of one lane as an environment with rows for nodes; it neither preempts, delays nor rejects."""

    def __init__(self, env: ServersEnv) -> None:
        if env.lanes != 1:
            raise ValueError(f"one lane is asked for, this batch has {env.lanes}")
        self._env = env

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the episode that the seed determines."""
        return self._seen(self._env.reset(seed or 0)), {}

    def step(self, action: Any, /) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""
        state, rewards, ended = self._env.step(np.array([action]))
        info = {OWN_REWARD: float(self._env.own_rewards[0])}
        return self._seen(state), float(rewards[0]), bool(ended[0]), False, info

    def _seen(self, state: ServersState) -> dict[str, Any]:
        rows = rows_of(self._env, state)
        nothing_else = np.zeros(rows.legal.shape[1] + 2, dtype=np.bool_)
        mask = np.concatenate([rows.legal[0], nothing_else])
        return {"nodes": rows.rows[0], "context": rows.context[0], "action_mask": mask}
