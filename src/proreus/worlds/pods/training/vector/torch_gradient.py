"""The networks over the k8s simulator's vectors in torch: forward and backward passes on a GPU.

The same numbers as `gradient`, whose kernels are faster on cores; here whole batches are matrices, which is
what a GPU is good at. Parameters stay where the optimiser is and are sent along with each batch.

B vectors of n nodes, A actions, H hidden units, F features of a node, K of its memory, G of the context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proreus.kernels.arrays import F32, F64
from proreus.worlds.pods.policies.vector.mlp import MOST_INPUT, TENSORS
from proreus.worlds.pods.policies.vector.scorer import (
    LAYOUT,
    MEMORY,
    MOST_SHARE,
    MOST_TASK,
    PARAMETERS,
    TASK_CORES,
    part,
)

Tensors = Mapping[str, NDArray[Any]]
_HEADS = ("delay", "reject", "value")


class TorchGradient:
    """Either network, as `gradient.Gradient` has it."""

    def __init__(self, kind: str, tensors: Tensors, device: str) -> None:
        self._device = torch.device(device)
        self._scorer = kind != "vector-mlp"
        if self._scorer:
            memory = np.asarray(tensors.get("memory", np.zeros((0, MEMORY))))
            self._shapes = dict(LAYOUT) | {"memory": memory.shape}
            arrays = [np.asarray(tensors["parameters"]), memory.ravel()]
            self.memory_from = PARAMETERS
        else:
            self._shapes = {name: np.asarray(tensors[name]).shape for name in TENSORS}
            arrays = [np.asarray(tensors[name]).ravel() for name in TENSORS]
            self.memory_from = sum(map(len, arrays))
        self.flat: F32 = np.concatenate(arrays).astype(np.float32)

    def forward(self, states: F64, actions: int) -> tuple[F32, F64]:
        """(logits float32[B, A], values float64[B])."""
        with torch.inference_mode():
            logits, values = self._outputs(self._sent(self.flat), self._sent(states), actions)
        return logits.cpu().numpy(), values.double().cpu().numpy()

    def backward(self, states: F64, d_logits: F32, d_values: F64, gradient: F64) -> float:
        """Fill gradient: float64[P] by those of logits and values; returns their length."""
        flat = self._sent(self.flat).requires_grad_()
        logits, values = self._outputs(flat, self._sent(states), d_logits.shape[1])
        (slope,) = torch.autograd.grad(
            (logits, values), (flat,), (self._sent(d_logits), self._sent(d_values))
        )
        gradient[:] = slope.double().cpu().numpy()
        return float(np.linalg.norm(gradient))

    def scale_value(self, factor: float, shift: float) -> None:
        """Make the value factor times what it was, plus shift."""
        if self._scorer:
            part(self.flat, "value")[:] *= np.float32(factor)
            offsets = part(self.flat, "offsets")
            offsets[2] = offsets[2] * factor + shift
        else:
            views = self.tensors(copied=False)
            views["critic.4.weight"][:] *= np.float32(factor)
            bias = views["critic.4.bias"]
            bias[:] = bias * np.float32(factor) + np.float32(shift)

    def tensors(self, *, copied: bool = True) -> dict[str, NDArray[Any]]:
        """The weights as a checkpoint keeps them."""
        if self._scorer:
            memory = self.flat[PARAMETERS:].reshape(-1, MEMORY)
            views = {"parameters": self.flat[:PARAMETERS]} | ({"memory": memory} if len(memory) else {})
        else:
            views, start = {}, 0
            for name, shape in self._shapes.items():
                views[name] = self.flat[start : start + math.prod(shape)].reshape(shape)
                start += math.prod(shape)
        return {name: view.copy() for name, view in views.items()} if copied else views

    def _sent(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(self._device)

    def _outputs(self, flat: Tensor, states: Tensor, actions: int) -> tuple[Tensor, Tensor]:
        """Logits [B, A] and values [B] of states [B, S], with parameters [P]."""
        named, start = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            named[name] = flat[start : start + size].reshape(shape)
            start += size
        return _scorer(named, states, (actions - 2) // 2) if self._scorer else _mlp(named, states)


def _mlp(named: Mapping[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor]:
    x = states.clamp(-MOST_INPUT, MOST_INPUT)
    outputs = []
    for side in ("actor", "critic"):
        h = x
        for layer in (0, 2, 4):
            h = h @ named[f"{side}.{layer}.weight"].T + named[f"{side}.{layer}.bias"]
            h = h if layer == 4 else torch.tanh(h)
        outputs.append(h)
    return outputs[0], outputs[1][:, 0]


def _scorer(named: Mapping[str, Tensor], states: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """See `policies.vector.scorer`."""
    shares = states[:, : 2 * nodes].reshape(len(states), nodes, 2).clamp(0.0, float(MOST_SHARE))
    fuller = shares.amax(2, keepdim=True)
    empty = (fuller == 0.0).float()
    x = torch.cat((shares, fuller, empty), 2)
    g = _context(states, shares, empty, nodes)
    base = g @ named["context"] + named["bias"]
    bids = x @ named["node"] + base[:, None]
    if len(named["memory"]):
        bids = bids + named["memory"] @ named["remembered"]
    h = torch.relu(torch.relu(bids) @ named["second"] + named["second_bias"])
    q = torch.tanh(h.mean(1) @ named["pooled"] + g @ named["pooled_context"] + named["pooled_bias"])
    delay, reject, value = (
        q @ named[head] + named["offsets"][position] for position, head in enumerate(_HEADS)
    )
    logits = torch.cat((h @ named["place"], h @ named["preempt"], delay[:, None], reject[:, None]), 1)
    return logits, value


def _context(states: Tensor, shares: Tensor, empty: Tensor, nodes: int) -> Tensor:
    """[B, G]; see CONTEXT."""
    rows = len(states)
    if states.shape[1] > 2 * nodes:
        cores = torch.log1p((states[:, 2 * nodes] * TASK_CORES).clamp(0.0, MOST_TASK))
        gib = torch.log1p(states[:, 2 * nodes + 1].clamp(0.0, MOST_TASK))
        task = torch.stack((torch.ones_like(cores), cores, gib, gib - cores), 1)
    else:
        task = states.new_zeros((rows, 4))
    size = states.new_full((rows, 1), math.log1p(nodes) / 10.0)
    return torch.cat((task, shares.mean(1), shares.amax(1), shares.amin(1), empty.mean(1), size), 1)
