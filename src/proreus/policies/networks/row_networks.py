"""Torch networks that choose among rows: agents that bid, a mixer of their values, an actor-critic.

An agent has two rows (a server with its two NUMA nodes). The weights are shared by all agents, so that one
network serves any number of them. B choices, N agents, H hidden units, F features of a row, G of the context.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Trunk(nn.Module):
    """What each row looks like, and the whole beside it."""

    def __init__(self, hidden: int, row_features: int, context_features: int) -> None:
        super().__init__()
        self.of_row = nn.Linear(row_features, hidden)
        self.of_context = nn.Linear(context_features, hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)
        self.whole = nn.Linear(2 * hidden + context_features, hidden)

    def forward(self, rows: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """([B, 2 N, H] of the rows, [B, H] of the whole) from rows [B, 2 N, F] and context [B, G]."""
        encoded = torch.relu(self.of_row(rows) + self.of_context(context).unsqueeze(1))
        encoded = torch.relu(self.deeper(encoded))
        whole = torch.cat((encoded.mean(1), encoded.amax(1), context), 1)
        return encoded, torch.relu(self.whole(whole))


class Agents(nn.Module):
    """QMIX's agents, one per server with shared weights: what it is worth to each to place here, or to pass.

    A server takes the request on its first NUMA node, on its second, or passes. Exactly one of them takes
    it, so a server's bid is what it gains by taking it over passing, and the highest bid wins.
    """

    def __init__(self, hidden: int, row_features: int, context_features: int) -> None:
        super().__init__()
        self.trunk = Trunk(hidden, row_features, context_features)
        self.from_whole = nn.Linear(hidden, hidden, bias=False)
        self.take = nn.Linear(hidden, 1)
        self.skip = nn.Linear(hidden, 1)

    def forward(self, rows: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(utility of taking [B, 2 N], utility of passing [B, N], the whole [B, H])."""
        encoded, whole = self.trunk(rows, context)
        encoded = torch.relu(encoded + self.from_whole(whole).unsqueeze(1))
        take = self.take(encoded).squeeze(-1)
        servers = encoded.reshape(len(encoded), -1, 2, encoded.shape[2]).mean(2)  # each knows both its rows
        return take, self.skip(servers).squeeze(-1), whole

    def bids(self, rows: Tensor, context: Tensor) -> Tensor:
        """[B, 2 N]: what each server gains by taking the request on each NUMA node."""
        take, skip, _ = self(rows, context)
        gain: Tensor = take - skip.repeat_interleave(2, dim=1)
        return gain


class MonotonicMixer(nn.Module):
    """The team's value from its agents' utilities; it never falls when one of them rises.

    The weights are positive and depend on the state (hypernetworks), not on the agent: then the joint action
    of highest team value is the one of the highest bid, whoever makes it, although only one agent may act.
    """

    def __init__(self, hidden: int, width: int = 16) -> None:
        super().__init__()
        self.weights_in = nn.Linear(hidden, width)
        self.bias_in = nn.Linear(hidden, width)
        self.weights_out = nn.Linear(hidden, width)
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, total: Tensor, whole: Tensor) -> Tensor:
        """float[B, ..] from the sum of the chosen utilities [B, ..] and the whole [B, H]."""
        flat = total.reshape(total.shape[0], -1, 1)  # [B, K, 1]
        weights_in, weights_out = self.weights_in(whole).abs(), self.weights_out(whole).abs()  # [B, W]
        layer = nn.functional.elu(flat * weights_in.unsqueeze(1) + self.bias_in(whole).unsqueeze(1))
        out: Tensor = (layer * weights_out.unsqueeze(1)).sum(2) + self.value(whole)  # [B, K]
        return out.reshape(total.shape)


class QMIXNetwork(nn.Module):
    """Agents and their mixer: the value of every joint action in which one server takes the request."""

    def __init__(self, hidden: int, row_features: int, context_features: int) -> None:
        super().__init__()
        self.agents = Agents(hidden, row_features, context_features)
        self.mixer = MonotonicMixer(hidden)

    def forward(self, rows: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """(team values [B, 2 N], bids [B, 2 N])."""
        take, skip, whole = self.agents(rows, context)
        bids = take - skip.repeat_interleave(2, dim=1)
        return self.mixer(skip.sum(1, keepdim=True) + bids, whole), bids


class ActorCritic(nn.Module):
    """Logits of the choices and the value of the state, for PPO."""

    def __init__(self, hidden: int, row_features: int, context_features: int) -> None:
        super().__init__()
        self.actor, self.critic = (Trunk(hidden, row_features, context_features) for _ in range(2))
        self.from_whole = nn.Linear(hidden, hidden, bias=False)
        self.logit = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        nn.init.zeros_(self.logit.weight)  # all choices are open at first
        nn.init.zeros_(self.value.weight)

    def forward(self, rows: Tensor, context: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """(logits [B, 2 N], minus infinity where not legal; value [B])."""
        return self.logits(rows, context).masked_fill(~legal, -torch.inf), self.values(rows, context)

    def logits(self, rows: Tensor, context: Tensor) -> Tensor:
        """[B, 2 N] of all choices, legal or not."""
        encoded, whole = self.actor(rows, context)
        logits: Tensor = self.logit(torch.relu(encoded + self.from_whole(whole).unsqueeze(1))).squeeze(-1)
        return logits

    def values(self, rows: Tensor, context: Tensor) -> Tensor:
        """[B] of the states."""
        values: Tensor = self.value(self.critic(rows, context)[1]).squeeze(-1)
        return values


def best_choice(values: Tensor, legal: Tensor) -> Tensor:
    """int64[B]: the legal choice of highest value, the first of equals."""
    return values.masked_fill(~legal, -torch.inf).argmax(dim=1)
