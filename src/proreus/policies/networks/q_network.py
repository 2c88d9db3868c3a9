"""The value of every action of a decision, over any number of rows.

A row is an agent that bids: one small network with shared weights scores each of them, knowing the context
and a summary of the other rows. `learning.ddqn` trains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class QNetwork(nn.Module):
    """Dueling: Q(a) = V + A(a) - mean of A over the legal actions.

    The actions are to take a row, or [2N + 2] to take it in either of two ways (place there, or preempt
    there), and two that take none (delay, reject).
    """

    def __init__(self, hidden: int, row_features: int, context_features: int) -> None:
        super().__init__()
        self.of_node = nn.Linear(row_features, hidden)
        self.of_context = nn.Linear(context_features, hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)
        self.summary = nn.Linear(2 * hidden + context_features, hidden)
        self.value = nn.Linear(hidden, 1)
        self.waiting = nn.Linear(hidden, 2)  # delay, reject
        self.bid_of_node = nn.Linear(hidden, hidden)
        self.bid_of_summary = nn.Linear(hidden, hidden, bias=False)
        self.bid = nn.Linear(hidden, 2)  # place, preempt

    def forward(self, rows: Tensor, context: Tensor, legal: Tensor) -> Tensor:
        """float[B, N, F], float[B, G], bool[B, K] -> float[B, K]; K is N or 2N + 2.

        Values of illegal actions mean nothing: leave them out with `best_legal`.
        """
        count, actions = rows.shape[1], legal.shape[1]
        # One way of adding up for both kinds of K: sums of another length round otherwise.
        mask = nn.functional.pad(legal, (0, 2 * count + 2 - actions))
        encoded = torch.relu(self.of_node(rows) + self.of_context(context).unsqueeze(1))
        encoded = torch.relu(self.deeper(encoded))
        open_rows = mask[:, :count].unsqueeze(2).to(encoded.dtype)
        offered = encoded * open_rows  # not negative, so 0 is the maximum over no rows
        mean = offered.sum(dim=1) / open_rows.sum(dim=1).clamp(min=1.0)
        summary = torch.relu(self.summary(torch.cat((mean, offered.amax(dim=1), context), dim=1)))
        bids = torch.relu(self.bid_of_node(encoded) + self.bid_of_summary(summary).unsqueeze(1))
        place, preempt = self.bid(bids).unbind(dim=2)
        advantage = torch.cat((place, preempt, self.waiting(summary)), dim=1)
        allowed = mask.to(advantage.dtype)
        usual = (advantage * allowed).sum(dim=1, keepdim=True) / allowed.sum(dim=1, keepdim=True).clamp(
            min=1.0
        )
        values: Tensor = self.value(summary) + advantage - usual
        return values[:, :actions]


def best_legal(values: Tensor, mask: Tensor) -> Tensor:
    """int64[B]: the legal action of highest value, the first of equals."""
    return values.masked_fill(~mask, -torch.inf).argmax(dim=1)


def network_of(tensors: Mapping[str, NDArray[Any]], sizes: tuple[int, int]) -> QNetwork:
    """The network of a checkpoint's tensors; sizes: features of a row and of the context.

    ValueError names a tensor that is missing, wrong or not finite.
    """
    width = tensors["deeper.weight"].shape[0] if "deeper.weight" in tensors else 1
    with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten: nobody else shall notice
        network = QNetwork(width, *sizes)
    for name, parameter in network.state_dict().items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != tuple(parameter.shape) or not np.isfinite(tensor).all():
            raise ValueError(f"{name}: needs finite numbers of shape {tuple(parameter.shape)}")
        parameter.copy_(torch.from_numpy(tensor.astype(np.float32)))
    return network
