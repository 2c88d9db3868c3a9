"""The names of VMAgent's notes: `VectorMAC`, `QmixAgent`, `action_REGISTRY`, many `SchedEnv` side by side.

    mac = VectorMAC(args)             # args.N servers, args.cpu and args.mem of a NUMA node
    envs = SchedEnvs([SchedEnv("recovering", servers=args.N, rows="events") for _ in my_steps])
    envs.reset(my_steps)              # the row of the trace at which each begins
    state = {"obs": envs.get_attr("obs"), "feat": envs.get_attr("req"), "avail": envs.get_attr("avail")}
    action, state, reward, done = envs.step(mac.select_actions(state, eps))

`args` is anything with those attributes; `hidden`, `seed` and `device` are read where it has them. Each
server is an agent with the same network (`policies.networks.row_networks.Agents`), the highest bid takes the
request. `proreus train vms --algo qmix` trains it; `proreus.envs` offers the names. `VectorMAC.of(envs)` is
the same over the rows of any world with lanes, `DeployEnv` among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proreus.kernels.arrays import F64, I64, Bool
from proreus.learning.qmix import explore
from proreus.model.errors import UsageError
from proreus.policies.networks.row_networks import Agents, best_choice
from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, encode_servers

Shape = tuple[int, ...]
_HIDDEN, _SEED, _DEVICE = 64, 0, "cpu"


@dataclass(frozen=True)
class MACArguments:
    """What the controller is built for; the number of servers is only checked, the weights serve any."""

    N: int
    """Servers."""
    cpu: float = 40.0
    """Cores of one NUMA node."""
    mem: float = 90.0
    """GB of one NUMA node."""
    hidden: int = _HIDDEN
    """Width of the agents' layers."""
    seed: int = _SEED
    """Of the first weights and of exploration."""
    device: str = _DEVICE
    """Where the agents compute."""


class QmixAgent(nn.Module):
    """What every choice is worth to the agents, from what is observed and what is asked for.

    obs_space: [(N, 2, 2), (1, 2, 2)] of servers, of which `args` has `cpu` and `mem`; or [(R, F), (G,)], rows
    of features and what holds for all of them. action_space: how many choices there are.
    """

    def __init__(self, obs_space: Sequence[Shape], action_space: int, args: Any) -> None:
        super().__init__()
        self.obs_space, self.action_space = [tuple(shape) for shape in obs_space], action_space
        self._size: tuple[float, float] | None = None
        sizes = (len(ROW_FEATURES), len(CONTEXT_FEATURES))
        if len(self.obs_space[0]) == 3:
            self._size = float(_of(args, "cpu")), float(_of(args, "mem"))
            choices = 2 * self.obs_space[0][0]
        else:
            (choices, features), (context,) = self.obs_space
            sizes = (features, context)
        if choices != action_space:
            raise UsageError(f"QmixAgent: {action_space} actions, and the observation has {choices} choices")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(getattr(args, "seed", _SEED)))
            self.agents = Agents(int(getattr(args, "hidden", _HIDDEN)), *sizes)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """float[E, actions] from [observation, request]: [E, N, 2, 2] and [E, 1 or 2, 2, 2], or rows and
        context."""
        observed, asked = inputs
        if self._size is None:
            return self._bids(observed, asked)
        obs, feat = observed.cpu().numpy(), _by_choice(asked.cpu().numpy())
        legal: Bool = np.all(obs[:, :, None] >= feat[:, None], axis=(3, 4))  # [E, N, choice of NUMA]
        encoded = encode_servers(obs, feat, legal, self._size)
        rows, context = (torch.from_numpy(array).to(observed.device) for array in encoded[:2])
        return self._bids(rows, context)

    def _bids(self, rows: Tensor, context: Tensor) -> Tensor:
        """An agent has two rows: where their number is odd, the last one's other row is empty."""
        count = rows.shape[1]
        return self.agents.bids(nn.functional.pad(rows, (0, 0, 0, count % 2)), context)[:, :count]


class EpsilonGreedySelector:
    """The choice of highest value, or with chance eps a legal one at random."""

    def __init__(self, args: Any) -> None:
        self.random = np.random.default_rng(int(getattr(args, "seed", _SEED)))

    def select_action(
        self, agent_outputs: Tensor, eps: float, avail_actions: Tensor, test_mode: bool | int = False
    ) -> Tensor:
        """int64[E]; nothing is tried at random in test mode."""
        legal = avail_actions.bool()
        greedy: I64 = best_choice(agent_outputs, legal).cpu().numpy()
        chance = 0.0 if test_mode else eps
        return torch.from_numpy(explore(greedy, legal.cpu().numpy(), chance, self.random))


action_REGISTRY: Mapping[str, Callable[[Any], EpsilonGreedySelector]] = {  # noqa: N816  # the notes' name
    "epsilon_greedy": EpsilonGreedySelector
}
"""Ways to choose among values, by name."""


class VectorMAC:
    """Agents with shared weights behind one selector: from states of many environments to their actions."""

    def __init__(self, args: Any, agents: QmixAgent | Agents | None = None) -> None:
        """`args`: servers as above, or `obs_space` and `action_space` of rows. `agents`: those of another
        controller, or of a trained `QMIXNetwork`."""
        self.args = args
        if getattr(args, "obs_space", None) is not None:
            self._build_agents(args.obs_space, int(args.action_space), args)
        else:
            servers = int(_of(args, "N"))
            self._build_agents([(servers, 2, 2), (1, 2, 2)], servers * 2, args)
        if agents is not None:
            self.agent.agents = agents.agents if isinstance(agents, QmixAgent) else agents
        self.agent.to(self._device)
        self.action_selector = action_REGISTRY["epsilon_greedy"](args)

    @classmethod
    def of(cls, envs: Any, **settings: Any) -> VectorMAC:
        """For a vector environment that shows rows, such as `gymnasium.make_vec("proreus/Rebalance-v0")`;
        settings: `hidden`, `seed`, `device`."""
        space = envs.single_observation_space
        shapes = [space["rows"].shape, space["context"].shape]
        actions = int(envs.single_action_space.n)
        return cls(SimpleNamespace(obs_space=shapes, action_space=actions, **settings))

    @property
    def _device(self) -> str:
        return str(getattr(self.args, "device", _DEVICE))

    def _build_agents(self, obs_space: Sequence[Shape], action_space: int, args: Any) -> None:
        self.obs_space, self.action_space = [tuple(shape) for shape in obs_space], action_space
        self.agent = QmixAgent(obs_space, action_space, args).to(self._device)

    def select_actions(self, ep_batch: Mapping[str, Any], eps: float) -> I64:
        """int64[E]: the best bid's choice, or with chance eps a legal one at random."""
        agent_outputs, avail_actions = self.forward(ep_batch)
        chosen_actions = self.action_selector.select_action(agent_outputs, eps, avail_actions, 0)
        actions: I64 = chosen_actions.cpu().numpy()
        return actions

    def forward(
        self,
        ep_batch: Mapping[str, Any],
        isDelta: bool = False,  # noqa: N803  # the notes' name
    ) -> tuple[Tensor, Tensor]:
        """(bids [E, actions], minus infinity where not legal; what is legal [E, actions])."""
        if isDelta:
            raise UsageError("isDelta: differences of observations are not offered, only observations")
        agent_inputs, avail_actions = self._build_inputs(ep_batch)
        with torch.inference_mode():
            agent_outs = self.agent(agent_inputs)
        return self.mask_invalid(agent_outs, avail_actions)

    @staticmethod
    def mask_invalid(agent_outs: Tensor, avail_actions: Tensor) -> tuple[Tensor, Tensor]:
        """Choices that are not legal are worth minus infinity, whatever the agents say; what is legal."""
        return agent_outs.masked_fill(~avail_actions, -torch.inf), avail_actions

    def _build_inputs(self, states: Mapping[str, Any], is_z: bool = False) -> tuple[list[Tensor], Tensor]:
        """([observation, request], what is legal) as tensors; rows may have the names of vector environments
        (`rows`, `context`, `action_mask`)."""
        if is_z:
            raise UsageError("is_z: there is no second view of a state")
        names = ("obs", "feat", "avail") if "obs" in states else ("rows", "context", "action_mask")
        obs, feat, avail = (np.asarray(states[name]) for name in names)
        shapes = self.obs_space
        fits = obs.shape[1:] == shapes[0] and (
            feat.shape[1:] in (shapes[1], (2, 2, 2)) if len(shapes[0]) == 3 else feat.shape[1:] == shapes[1]
        )
        if not fits or avail.size != len(obs) * self.action_space:
            what = f"{shapes[0][0]} servers" if len(shapes[0]) == 3 else f"{shapes[0][0]} rows"
            raise UsageError(
                f"VectorMAC for {what}: obs {obs.shape}, feat {feat.shape} and avail {avail.shape} do not "
                f"fit (E, *{shapes[0]}), (E, *{shapes[1]}) and (E, {self.action_space})"
            )
        legal = torch.from_numpy(avail.astype(np.bool_).reshape(len(obs), self.action_space))
        inputs = [torch.as_tensor(array, dtype=torch.float32, device=self._device) for array in (obs, feat)]
        return inputs, legal.to(self._device)


class SchedEnvs:
    """Many `SchedEnv` side by side, in the words of the notes: `reset(my_steps)`, `get_attr`, `step`."""

    def __init__(self, envs: Sequence[Any]) -> None:
        """envs: of `SchedEnv`; with rows="events" a start counts rows of the event table, as in VMAgent."""
        if not envs:
            raise UsageError("no environment: at least one is needed")
        self.envs = list(envs)
        self._over = [True] * len(self.envs)

    def reset(self, my_steps: Sequence[int]) -> list[Any]:
        """Every environment at a row of the trace, or at the first creation from there on."""
        if len(my_steps) != len(self.envs):
            raise UsageError(f"my_steps: {len(my_steps)} of them for {len(self.envs)} environments")
        self._over = [False] * len(self.envs)
        return [env.reset(int(step))[0] for env, step in zip(self.envs, my_steps, strict=True)]

    def get_attr(self, name: str) -> NDArray[Any]:
        """`avail` [E, 2N], `req` or `feat` [E, 2, 2, 2], `obs` [E, N, 2, 2], `t` or `start` [E]."""
        return np.stack([np.asarray(env.get_attr(name)) for env in self.envs])

    def step(self, actions: Sequence[int] | I64) -> tuple[I64, NDArray[Any], F64, Bool]:
        """(the actions that were carried out, what is left on the servers, rewards, which are done), as in
        the notes; one that is done stays as it is and earns nothing."""
        carried = np.full(len(self.envs), -1, dtype=np.int64)
        rewards = np.zeros(len(self.envs))
        for place, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            if not self._over[place]:
                _, rewards[place], ended, cut, info = env.step(int(action))
                carried[place], self._over[place] = info["action"], ended or cut
        return carried, self.get_attr("obs"), rewards, np.array(self._over)


def _by_choice(feat: NDArray[Any]) -> NDArray[Any]:
    """[E, 2, 2, 2] by the NUMA node that is chosen; the notes' [E, 1, 2, 2] is that of the first."""
    return feat if feat.shape[1] == 2 else np.concatenate([feat, feat[:, :, ::-1]], axis=1)


def _of(args: Any, name: str) -> Any:
    if not hasattr(args, name):
        raise UsageError(f"args.{name} is missing: N servers, cpu and mem of a NUMA node")
    return getattr(args, name)
