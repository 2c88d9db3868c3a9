"""Forward and backward passes over the k8s simulator's vectors, for the two networks that decide by them.

`gradient_of` turns the tensors of a checkpoint into a `Gradient`: one flat vector of parameters, logits and
values of a batch, and the gradient of a loss by the parameters from that by logits and values. What is
served (`policies.vector.scorer`, `policies.vector.mlp`) computes the same logits; tests keep them equal, and
check the gradient against autograd.

B vectors of n nodes, H hidden units, F features of a node, K of its memory, G of the context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, F64
from proreus.kernels.jit import compiled
from proreus.learning.device import Device, uses_cuda
from proreus.learning.optimiser import add_gradients
from proreus.workers.threads import Threads
from proreus.worlds.pods.policies.vector.mlp import MOST_INPUT, TENSORS
from proreus.worlds.pods.policies.vector.scorer import (
    BIAS,
    BLOCK,
    CONTEXT,
    CONTEXT_WEIGHTS,
    DELAY,
    HIDDEN,
    MEMORY,
    NODE,
    NODE_FEATURES,
    OFFSETS,
    PARAMETERS,
    PLACE,
    POOLED,
    POOLED_BIAS,
    POOLED_CONTEXT,
    PREEMPT,
    REJECT,
    REMEMBERED,
    SECOND,
    SECOND_BIAS,
    VALUE,
    add_sums,
    fill_base,
    fill_cluster,
    fill_context,
    fill_layers,
    fill_nodes,
    logits_of,
    new_vector_scratch,
    part,
)

Tensors = Mapping[str, NDArray[Any]]
_CHUNKS = 8  # a batch is always cut into so many, whatever the number of threads: sums have one order
_F, _G, _K, _H = len(NODE_FEATURES), len(CONTEXT), MEMORY, HIDDEN
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Gradient(Protocol):
    """A network with one flat vector of parameters."""

    flat: F32
    """float32[P]: change it in place to change the network."""
    memory_from: int
    """Where in `flat` the memory of nodes starts; its length where there is none."""

    def forward(self, states: F64, actions: int) -> tuple[F32, F64]:
        """(logits float32[B, A], values float64[B])."""
        ...

    def backward(self, states: F64, d_logits: F32, d_values: F64, gradient: F64) -> float:
        """Fill gradient: float64[P] by those of logits and values; returns their length."""
        ...

    def scale_value(self, factor: float, shift: float) -> None:
        """Make the value factor times what it was, plus shift."""
        ...

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights as a checkpoint keeps them."""
        ...


def gradient_of(kind: str, tensors: Tensors, threads: int, device: Device = "cpu") -> Gradient:
    """The network of a checkpoint's kind and tensors; threads 0: one per core.

    device: where a GPU is asked for and there, torch computes on it; else compiled kernels on the cores.
    """
    if uses_cuda(device):
        from proreus.worlds.pods.training.vector.torch_gradient import TorchGradient

        return TorchGradient(kind, tensors, "cuda")
    return MLPGradient(tensors) if kind == "vector-mlp" else ScorerGradient(tensors, threads)


class ScorerGradient:
    """The size-free network, with or without a memory."""

    def __init__(self, tensors: Tensors, threads: int) -> None:
        memory = tensors.get("memory", np.zeros((0, MEMORY)))
        joined = np.concatenate((tensors["parameters"], np.asarray(memory).ravel()))
        self.flat = joined.astype(np.float32)
        self.memory_from = PARAMETERS
        self._model = (self.flat[:PARAMETERS], self.flat[PARAMETERS:].reshape(-1, MEMORY))
        self._threads = Threads(threads)

    def forward(self, states: F64, actions: int) -> tuple[F32, F64]:
        logits = np.empty((len(states), actions), dtype=np.float32)
        values = np.empty(len(states))
        edges = _edges(len(states))

        def task(thread: int, i: int) -> None:
            rows = slice(edges[i], edges[i + 1])
            logits_of(self._model, states[rows], logits[rows], values[rows])

        self._threads.each(task, _CHUNKS)
        return logits, values

    def backward(self, states: F64, d_logits: F32, d_values: F64, gradient: F64) -> float:
        parts = np.zeros((_CHUNKS, len(self.flat)), dtype=np.float32)
        edges = _edges(len(states))

        def task(thread: int, i: int) -> None:
            rows = slice(edges[i], edges[i + 1])
            add_scorer_gradient(self._model, states[rows], d_logits[rows], d_values[rows], parts[i])

        self._threads.each(task, _CHUNKS)
        return add_gradients(parts, gradient)

    def scale_value(self, factor: float, shift: float) -> None:
        part(self.flat, "value")[:] *= np.float32(factor)
        offsets = part(self.flat, "offsets")
        offsets[2] = offsets[2] * factor + shift

    def tensors(self) -> dict[str, NDArray[Any]]:
        params, memory = self._model
        return {"parameters": params.copy()} | ({"memory": memory.copy()} if len(memory) else {})


def _edges(count: int) -> list[int]:
    return [count * i // _CHUNKS for i in range(_CHUNKS + 1)]


@compiled
def add_scorer_gradient(
    model: tuple[F32, F32], states: F64, d_logits: F32, d_values: F64, gradient: F32
) -> None:
    """Add to gradient, float32[P + n K], those of states: float64[B, S], d_logits: [B, A], d_values: [B]."""
    params, memory, work = model[0], model[1], new_vector_scratch()
    g, base, mean, layer, sums = work.context, work.base, work.mean, work.layer, work.sums
    nodes = (d_logits.shape[1] - 2) // 2
    blocks = (nodes + BLOCK - 1) // BLOCK
    x = np.zeros((blocks, _F + _K, BLOCK), dtype=np.float32)
    first = np.empty((blocks, _H, BLOCK), dtype=np.float32)
    second = np.empty((blocks, _H, BLOCK), dtype=np.float32)
    bids = np.empty((3, BLOCK), dtype=np.float32)
    d_mean, d_base = np.empty(_H, dtype=np.float32), np.empty(_H, dtype=np.float32)
    for b in range(states.shape[0]):
        fill_context(states[b], nodes, g)
        fill_base(params, g, base)
        sums[:] = _ZERO
        for at in range(blocks):
            count = min(BLOCK, nodes - at * BLOCK)
            fill_nodes(states[b], memory, at * BLOCK, count, x[at])
            fill_layers(params, base, x[at], first[at], second[at])
            add_sums(second[at], count, sums)
        fill_cluster(params, g, sums, nodes, (mean, layer))
        by = (d_logits[b, 2 * nodes], d_logits[b, 2 * nodes + 1], np.float32(d_values[b]))
        _backward_heads(params, (g, mean, layer), by, d_mean, gradient)
        for j in range(_H):
            d_mean[j] /= np.float32(nodes)
            d_base[j] = _ZERO
        for at in range(blocks):
            start = at * BLOCK
            count = min(BLOCK, nodes - start)
            bids[:] = _ZERO
            for k in range(count):
                bids[0, k] = d_logits[b, start + k]
                bids[1, k] = d_logits[b, nodes + start + k]
                bids[2, k] = _ONE
            _backward_block(params, (bids, d_mean), (x[at], first[at], second[at]), d_base, gradient)
            if memory.shape[0] > 0:
                for i in range(_K):
                    for k in range(count):
                        total = _ZERO
                        for j in range(_H):
                            total += params[REMEMBERED + i * _H + j] * first[at, j, k]
                        gradient[PARAMETERS + (start + k) * _K + i] += total
        for j in range(_H):
            gradient[BIAS + j] += d_base[j]
        for i in range(_G):
            for j in range(_H):
                gradient[CONTEXT_WEIGHTS + i * _H + j] += g[i] * d_base[j]


@compiled
def _backward_heads(
    params: F32,
    layers: tuple[F32, F32, F32],
    by: tuple[np.float32, np.float32, np.float32],
    d_mean: F32,
    gradient: F32,
) -> None:
    """Gradient of the heads and, in d_mean, by the mean of h; layers: g, that mean, q, which becomes one too.

    by: that of delay, reject and value.
    """
    g, mean, layer = layers
    delay, reject, value = by
    gradient[OFFSETS] += delay
    gradient[OFFSETS + 1] += reject
    gradient[OFFSETS + 2] += value
    for j in range(_H):
        q = layer[j]
        gradient[DELAY + j] += delay * q
        gradient[REJECT + j] += reject * q
        gradient[VALUE + j] += value * q
        by_layer = delay * params[DELAY + j] + reject * params[REJECT + j] + value * params[VALUE + j]
        layer[j] = by_layer * (_ONE - q * q)
        gradient[POOLED_BIAS + j] += layer[j]
    for i in range(_G):
        for j in range(_H):
            gradient[POOLED_CONTEXT + i * _H + j] += g[i] * layer[j]
    for i in range(_H):
        total = _ZERO
        for j in range(_H):
            gradient[POOLED + i * _H + j] += mean[i] * layer[j]
            total += params[POOLED + i * _H + j] * layer[j]
        d_mean[i] = total


@compiled
def _backward_block(
    params: F32, by: tuple[F32, F32], layers: tuple[F32, F32, F32], d_base: F32, gradient: F32
) -> None:
    """Gradient through one block of nodes.

    by: that of the bids to place and to preempt, and 1 where there is a node, [3, 16]; that by h as part of
    the mean, [H]. layers: x, first, second; the latter two become derivatives by what went into them.
    """
    bids, d_mean = by
    x, first, second = layers
    for j in range(_H):
        place, preempt, within = params[PLACE + j], params[PREEMPT + j], d_mean[j]
        s_place = s_preempt = s_bias = _ZERO
        for k in range(BLOCK):
            h = second[j, k]
            s_place += bids[0, k] * h
            s_preempt += bids[1, k] * h
            derivative = bids[0, k] * place + bids[1, k] * preempt + bids[2, k] * within
            derivative = derivative if h > _ZERO else _ZERO
            second[j, k] = derivative
            s_bias += derivative
        gradient[PLACE + j] += s_place
        gradient[PREEMPT + j] += s_preempt
        gradient[SECOND_BIAS + j] += s_bias
    for i in range(_H):
        for j in range(_H):
            total = _ZERO
            for k in range(BLOCK):
                total += first[i, k] * second[j, k]
            gradient[SECOND + i * _H + j] += total
        by_base = _ZERO
        for k in range(BLOCK):
            total = _ZERO
            for j in range(_H):
                total += params[SECOND + i * _H + j] * second[j, k]
            total = total if first[i, k] > _ZERO else _ZERO
            first[i, k] = total
            by_base += total
        d_base[i] += by_base
    for i in range(_F + _K):
        for j in range(_H):
            total = _ZERO
            for k in range(BLOCK):
                total += x[i, k] * first[j, k]
            gradient[NODE + i * _H + j] += total


class MLPGradient:
    """The k8s simulator's plain network."""

    def __init__(self, tensors: Tensors) -> None:
        shapes = {name: np.asarray(tensors[name]).shape for name in TENSORS}
        self.flat = np.concatenate([np.asarray(tensors[name]).ravel() for name in TENSORS]).astype(np.float32)
        self.memory_from = len(self.flat)
        self._views: dict[str, F32] = {}
        self._at: dict[str, slice] = {}
        start = 0
        for name, shape in shapes.items():
            self._at[name] = slice(start, start + math.prod(shape))
            self._views[name] = self.flat[self._at[name]].reshape(shape)
            start += math.prod(shape)

    def forward(self, states: F64, actions: int) -> tuple[F32, F64]:
        return self._layers("actor", states)[-1], self._layers("critic", states)[-1][:, 0].astype(np.float64)

    def _layers(self, side: str, states: F64) -> tuple[F32, F32, F32, F32]:
        """Inputs, hidden layers and outputs of one side."""
        view = self._views
        x = np.clip(states, -MOST_INPUT, MOST_INPUT).astype(np.float32)
        first = np.tanh(x @ view[f"{side}.0.weight"].T + view[f"{side}.0.bias"])
        second = np.tanh(first @ view[f"{side}.2.weight"].T + view[f"{side}.2.bias"])
        return x, first, second, second @ view[f"{side}.4.weight"].T + view[f"{side}.4.bias"]

    def backward(self, states: F64, d_logits: F32, d_values: F64, gradient: F64) -> float:
        for side, derivative in (("actor", d_logits), ("critic", d_values[:, None].astype(np.float32))):
            x, first, second, _ = self._layers(side, states)
            for layer, inputs in ((4, second), (2, first), (0, x)):
                gradient[self._at[f"{side}.{layer}.weight"]] = (derivative.T @ inputs).ravel()
                gradient[self._at[f"{side}.{layer}.bias"]] = derivative.sum(axis=0)
                if layer:
                    derivative = (derivative @ self._views[f"{side}.{layer}.weight"]) * (
                        1.0 - inputs * inputs
                    )
        return float(np.linalg.norm(gradient))

    def scale_value(self, factor: float, shift: float) -> None:
        self._views["critic.4.weight"][:] *= np.float32(factor)
        bias = self._views["critic.4.bias"]
        bias[:] = bias * np.float32(factor) + np.float32(shift)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: view.copy() for name, view in self._views.items()}
