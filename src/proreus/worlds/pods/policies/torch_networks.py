"""The same networks in torch: for gradients by autograd, for GPUs, and for people's own training loops.

Only modules of networks import torch: rules and kernels start without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from proreus.worlds.pods.encoding.context import PREEMPTING
from proreus.worlds.pods.policies.scorer import LAYOUT, initial_parameters, part


class Scorer(nn.Module):
    """The size-free scorer of `policies.scorer` over padded batches: B decisions, N rows at most."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        vector = initial_parameters(seed)
        for name in LAYOUT:
            self.register_parameter(name, nn.Parameter(torch.from_numpy(part(vector, name).copy())))

    def forward(self, rows: Tensor, legal: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """(logits [B, N + 2], value [B]) of rows [B, N, F], legal [B, N] and context [B, G].

        The logits of rows that are not legal are minus infinity; the last two are delay and reject.
        """
        weights = {name: self.get_parameter(name) for name in LAYOUT}
        bids, heads, value = bids_of(weights, rows, legal, context)
        return torch.cat([bids.masked_fill(~legal, -math.inf), heads], 1), value


def bids_of(
    weights: Mapping[str, Tensor], rows: Tensor, legal: Tensor, context: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(bids [B, N], delay and reject [B, 2], value [B]); the bids of rows that are not legal mean nothing."""
    of_context = context @ weights["context"] + weights["bias"]  # [B, H]
    hidden = torch.tanh(rows @ weights["node"] + of_context[:, None, :])  # [B, N, H]
    preempting = context[:, PREEMPTING, None] > 0
    head = torch.where(preempting, weights["preempt"], weights["place"])  # [B, H]
    bids = torch.bmm(hidden, head[:, :, None])[:, :, 0]
    share = legal.to(hidden.dtype) / legal.sum(1, keepdim=True).clamp(min=1)  # [B, N]
    pooled = torch.bmm(share[:, None, :], hidden)[:, 0]  # [B, H]
    layer = torch.tanh(
        pooled @ weights["pooled"] + context @ weights["pooled_context"] + weights["pooled_bias"]
    )
    heads = torch.stack([weights["delay"], weights["reject"], weights["value"]], 1)  # [H, 3]
    out = layer @ heads + weights["offsets"]
    return bids, out[:, :2], out[:, 2]


def parts_of(vector: Tensor) -> dict[str, Tensor]:
    """The named parts of a flat vector in their shapes; gradients flow through to it."""
    sizes = [math.prod(shape) for shape in LAYOUT.values()]
    pieces = torch.split(vector, sizes)
    return {name: piece.reshape(LAYOUT[name]) for name, piece in zip(LAYOUT, pieces, strict=True)}


class FixedActorCritic(nn.Module):
    """A plain actor-critic over a vector of fixed length (the k8s simulator: 2n in, 2n + 2 actions out)."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...] = (64, 64)) -> None:
        super().__init__()
        self.actor = _layers((inputs, *hidden), actions, 0.01)
        self.critic = _layers((inputs, *hidden), 1, 1.0)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(logits [B, actions], value [B]) of state [B, inputs]."""
        return self.actor(state), self.critic(state).squeeze(-1)


def _layers(widths: tuple[int, ...], outputs: int, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [_linear(before, after, math.sqrt(2.0)), nn.Tanh()]
    return nn.Sequential(*layers, _linear(widths[-1], outputs, gain))


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
