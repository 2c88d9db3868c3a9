"""`VectorMAC`: the multi-agent controller that turns states of many environments into actions.

    mac = VectorMAC(MACArguments(N=5, cpu=40, mem=90))
    state = {"obs": obs, "feat": feat, "avail": avail}     # [E, N, 2, 2], [E, 2, 2, 2], [E, N, 2] or [E, 2 N]
    actions = mac.select_actions(state, eps)               # int64[E], server * 2 + NUMA

Each server is an agent with the same network (`policies.networks.rows.Agents`); the highest bid
takes the request. With chance eps a lane takes a legal choice at random instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proreus.kernels.arrays import I64
from proreus.learning.qmix import explore
from proreus.model.errors import UsageError
from proreus.policies.networks.row_networks import Agents, best_choice
from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, encode_servers


@dataclass(frozen=True)
class MACArguments:
    """What the controller is built for; the number of servers is only checked, the weights serve any."""

    N: int
    """Servers."""
    cpu: float = 40.0
    """Cores of one NUMA node."""
    mem: float = 90.0
    """GB of one NUMA node."""
    hidden: int = 64
    """Width of the agents' layers."""
    seed: int = 0
    """Of the first weights and of exploration."""
    device: str = "cpu"
    """Where the agents compute."""


class VectorMAC:
    """Agents with shared weights behind one epsilon-greedy selector."""

    def __init__(self, args: MACArguments, agents: Agents | None = None) -> None:
        self.args = args
        self.action_space = args.N * 2
        self.obs_space = [(args.N, 2, 2), (2, 2, 2)]
        self.random = np.random.default_rng(args.seed)
        if agents is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(args.seed)
                agents = Agents(args.hidden, len(ROW_FEATURES), len(CONTEXT_FEATURES))
        self.agent = agents.to(args.device)

    def select_actions(self, ep_batch: Mapping[str, NDArray[Any]], eps: float) -> I64:
        """int64[E]: the best bid's choice, or with chance eps a legal one at random."""
        agent_outs, avail_actions = self.forward(ep_batch)
        greedy: I64 = best_choice(agent_outs, avail_actions).cpu().numpy()
        return explore(greedy, avail_actions.cpu().numpy(), eps, self.random)

    def forward(self, ep_batch: Mapping[str, NDArray[Any]]) -> tuple[Tensor, Tensor]:
        """(bids [E, 2 N], minus infinity where not legal; what is legal [E, 2 N])."""
        (rows, context), avail_actions = self._build_inputs(ep_batch)
        with torch.inference_mode():
            bids = self.agent.bids(rows, context)
        return self.mask_invalid(bids, avail_actions), avail_actions

    @staticmethod
    def mask_invalid(agent_outs: Tensor, avail_actions: Tensor) -> Tensor:
        """Choices that are not legal are worth minus infinity, whatever the agents say."""
        return agent_outs.masked_fill(~avail_actions, -torch.inf)

    def _build_inputs(self, states: Mapping[str, NDArray[Any]]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        obs, feat, avail = (np.asarray(states[name]) for name in ("obs", "feat", "avail"))
        if obs.shape[1:] != self.obs_space[0] or feat.shape[1:] != self.obs_space[1]:
            raise UsageError(
                f"VectorMAC for {self.args.N} servers: obs {obs.shape} and feat {feat.shape} do not fit "
                f"(E, {self.args.N}, 2, 2) and (E, 2, 2, 2)"
            )
        encoded = encode_servers(obs, feat, avail, (self.args.cpu, self.args.mem))
        rows, context, legal = (torch.from_numpy(array).to(self.args.device) for array in encoded)
        return (rows, context), legal
