"""The networks over the k8s simulator's vector in torch, for gradients. What is served is `vector_scorer` and
`vector_mlp`; tests keep the two worlds equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proreus.worlds.pods.policies.torch_networks import FixedActorCritic
from proreus.worlds.pods.policies.vector.mlp import MOST_INPUT, TENSORS, WIDTH
from proreus.worlds.pods.policies.vector.scorer import (
    LAYOUT,
    MOST_SHARE,
    MOST_TASK,
    PARAMETERS,
    TASK_CORES,
    part,
)

Tensors = Mapping[str, NDArray[Any]]


class ScorerNetwork(nn.Module):
    """The size-free network over batches of vectors with one number of nodes, with or without a memory."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        vector = np.asarray(tensors["parameters"], dtype=np.float32)
        for name in LAYOUT:
            self.register_parameter(name, nn.Parameter(torch.from_numpy(part(vector, name).copy())))
        memory = tensors.get("memory")
        remembered = None if memory is None else torch.from_numpy(np.array(memory, dtype=np.float32))
        self.memory = None if remembered is None else nn.Parameter(remembered)

    def forward(self, states: Tensor, actions: int) -> tuple[Tensor, Tensor]:
        """(logits [B, A], value [B]) of states [B, S]."""
        w = {name: self.get_parameter(name) for name in LAYOUT}
        nodes = (actions - 2) // 2
        own, context = _features(states, nodes)
        first = own @ w["node"] + (context @ w["context"] + w["bias"])[:, None, :]  # [B, N, H]
        if self.memory is not None:
            first = first + self.memory @ w["remembered"]
        hidden = torch.relu(torch.relu(first) @ w["second"] + w["second_bias"])
        layer = torch.tanh(
            hidden.mean(1) @ w["pooled"] + context @ w["pooled_context"] + w["pooled_bias"]
        )  # [B, H]
        out = layer @ torch.stack([w["delay"], w["reject"], w["value"]], 1) + w["offsets"]
        return torch.cat([hidden @ w["place"], hidden @ w["preempt"], out[:, :2]], 1), out[:, 2]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights as a checkpoint keeps them."""
        vector = np.zeros(PARAMETERS, dtype=np.float32)
        for name in LAYOUT:
            part(vector, name)[:] = self.get_parameter(name).detach().numpy()
        tensors: dict[str, NDArray[Any]] = {"parameters": vector}
        if self.memory is not None:
            tensors["memory"] = self.memory.detach().numpy().copy()
        return tensors


def _features(states: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """(per node [B, N, F], context [B, G]) as `vector_scorer.fill_context` has them."""
    shares = states[:, : 2 * nodes].float().clamp(0.0, float(MOST_SHARE)).reshape(-1, nodes, 2)
    fuller = shares.amax(2)
    empty = (fuller == 0.0).float()
    own = torch.cat([shares, fuller[:, :, None], empty[:, :, None]], 2)
    known = states.shape[1] > 2 * nodes
    task = states[:, 2 * nodes :].double() if known else torch.zeros((len(states), 2), dtype=torch.float64)
    scale = torch.tensor([TASK_CORES, 1.0], dtype=torch.float64)
    asked = torch.log1p((task * scale).clamp(0.0, MOST_TASK)).float()  # cores, GiB
    context = torch.cat(
        [
            torch.full((len(states), 1), 1.0 if known else 0.0),
            asked,
            asked[:, 1:] - asked[:, :1],
            shares.mean(1),
            shares.amax(1),
            shares.amin(1),
            empty.mean(1, keepdim=True),
            torch.full((len(states), 1), float(np.log1p(nodes) / 10.0)),
        ],
        1,
    )
    return own, context


class PlainNetwork(nn.Module):
    """The k8s simulator's plain network behind the same call."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        inputs = tensors["actor.0.weight"].shape[1]
        actions = tensors["actor.4.bias"].shape[0]
        self.network = FixedActorCritic(inputs, actions, (WIDTH, WIDTH))
        values = {name: np.array(tensors[name], dtype=np.float32) for name in TENSORS}
        self.network.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})

    def forward(self, states: Tensor, actions: int) -> tuple[Tensor, Tensor]:
        """(logits [B, A], value [B]) of states [B, S]."""
        network: tuple[Tensor, Tensor] = self.network(states.clamp(-MOST_INPUT, MOST_INPUT).float())
        return network

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights as a checkpoint keeps them."""
        return {name: value.numpy().copy() for name, value in self.network.state_dict().items()}


def network_of(kind: str, tensors: Tensors) -> ScorerNetwork | PlainNetwork:
    """The network of a checkpoint's kind and tensors."""
    return PlainNetwork(tensors) if kind == "vector-mlp" else ScorerNetwork(tensors)
