"""Forward and backward passes over document 000's vectors, for the two networks that decide by them.

`gradient_of` turns the tensors of a checkpoint into a `Gradient`: one flat vector of parameters, logits and
values of a batch, and the slopes of a loss by the parameters from its slopes by logits and values. What is
served (`policies.vector_scorer`, `policies.vector_mlp`) computes the same logits; tests keep them equal, and
check the slopes against autograd.

B vectors of n nodes, H hidden units, F features of a node, K of its memory, G of the context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proreus.cluster.columns import F64
from proreus.cluster.compiled import compiled, compiled_arithmetic
from proreus.encoding.context import F32
from proreus.learning.optimiser import add_slopes
from proreus.learning.threads import Threads
from proreus.policies.vector_mlp import MOST_INPUT, TENSORS
from proreus.policies.vector_scorer import (
    BLOCK,
    CONTEXT,
    HIDDEN,
    MEMORY,
    NODE_FEATURES,
    PARAMETERS,
    START,
    WORK,
    fill_context,
    fill_layers,
    fill_logits,
    fill_nodes,
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

    def backward(self, states: F64, d_logits: F32, d_values: F64, slopes: F64) -> float:
        """Fill slopes: float64[P] by those of logits and values; returns their length."""
        ...

    def scale_value(self, factor: float, shift: float) -> None:
        """Make the value factor times what it was, plus shift."""
        ...

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights as a checkpoint keeps them."""
        ...


def gradient_of(kind: str, tensors: Tensors, threads: int) -> Gradient:
    """The network of a checkpoint's kind and tensors; threads 0: one per core."""
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
        """See `Gradient`."""
        logits = np.empty((len(states), actions), dtype=np.float32)
        values = np.empty(len(states))
        edges = _edges(len(states))

        def task(thread: int, i: int) -> None:
            rows = slice(edges[i], edges[i + 1])
            logits_of(self._model, states[rows], (logits[rows], values[rows]))

        self._threads.each(task, _CHUNKS)
        return logits, values

    def backward(self, states: F64, d_logits: F32, d_values: F64, slopes: F64) -> float:
        """See `Gradient`."""
        parts = np.zeros((_CHUNKS, len(self.flat)), dtype=np.float32)
        edges = _edges(len(states))

        def task(thread: int, i: int) -> None:
            rows = slice(edges[i], edges[i + 1])
            add_scorer_slopes(self._model, states[rows], d_logits[rows], d_values[rows], parts[i])

        self._threads.each(task, _CHUNKS)
        return add_slopes(parts, slopes)

    def scale_value(self, factor: float, shift: float) -> None:
        """See `Gradient`."""
        part(self.flat, "value")[:] *= np.float32(factor)
        offsets = part(self.flat, "offsets")
        offsets[2] = offsets[2] * factor + shift

    def tensors(self) -> dict[str, NDArray[Any]]:
        """See `Gradient`."""
        params, memory = self._model
        return {"parameters": params.copy()} | ({"memory": memory.copy()} if len(memory) else {})


def _edges(count: int) -> list[int]:
    return [count * i // _CHUNKS for i in range(_CHUNKS + 1)]


@compiled
def logits_of(model: tuple[F32, F32], states: F64, out: tuple[F32, F64]) -> None:
    """out: (float32[B, A] logits, float64[B] values) of states: float64[B, S]."""
    logits, values = out
    work = np.empty(WORK, dtype=np.float32)
    for b in range(states.shape[0]):
        values[b] = fill_logits(model[0], model[1], states[b], (logits.shape[1] - 2) // 2, (logits[b], work))


_NODE, _CONTEXT, _BIAS, _SECOND, _SECOND_BIAS = (
    START[name] for name in ("node", "context", "bias", "second", "second_bias")
)
_PLACE, _PREEMPT, _POOLED, _POOLED_CONTEXT, _POOLED_BIAS = (
    START[name] for name in ("place", "preempt", "pooled", "pooled_context", "pooled_bias")
)
_DELAY, _REJECT, _VALUE, _OFFSETS = (START[name] for name in ("delay", "reject", "value", "offsets"))


@compiled_arithmetic
def add_scorer_slopes(model: tuple[F32, F32], states: F64, d_logits: F32, d_values: F64, slopes: F32) -> None:
    """Add to slopes, float32[P + n K], those of states: float64[B, S], d_logits: [B, A], d_values: [B]."""
    params, memory = model
    nodes = (d_logits.shape[1] - 2) // 2
    padded = (nodes + BLOCK - 1) // BLOCK * BLOCK
    x = np.zeros((padded // BLOCK, _F + _K, BLOCK), dtype=np.float32)
    first = np.empty((padded // BLOCK, _H, BLOCK), dtype=np.float32)
    second = np.empty((padded // BLOCK, _H, BLOCK), dtype=np.float32)
    small = np.empty((6, 16), dtype=np.float32)
    bids = np.empty((2, BLOCK), dtype=np.float32)
    d_first = np.empty((_H, BLOCK), dtype=np.float32)
    for b in range(states.shape[0]):
        _forward(params, memory, states[b], nodes, (x, first, second, small))
        _backward_heads(params, small, d_logits[b], np.float32(d_values[b]), slopes)
        for start in range(0, nodes, BLOCK):
            count = min(BLOCK, nodes - start)
            bids[:] = _ZERO
            for k in range(count):
                bids[0, k] = d_logits[b, start + k]
                bids[1, k] = d_logits[b, nodes + start + k]
            at = start // BLOCK
            small[5, 0] = np.float32(count)
            _backward_block(params, (x[at], first[at], second[at]), (bids, small), d_first, slopes)
            if memory.shape[0] > 0:
                for i in range(_K):
                    for k in range(count):
                        total = _ZERO
                        for j in range(_H):
                            total += params[_NODE + (_F + i) * _H + j] * d_first[j, k]
                        slopes[PARAMETERS + (start + k) * _K + i] += total
        for j in range(_H):
            slopes[_BIAS + j] += small[4, j]
            for i in range(_G):
                slopes[_CONTEXT + i * _H + j] += small[0, i] * small[4, j]


@compiled_arithmetic
def _forward(params: F32, memory: F32, state: F64, nodes: int, out: tuple[F32, F32, F32, F32]) -> None:
    """Fill features and hidden layers by block, and small: context, base, mean of the second layer, heads."""
    x, first, second, small = out
    g, base, mean, layer, d_base = small[0], small[1], small[2], small[3], small[4]
    fill_context(state, nodes, g)
    for j in range(_H):
        total, cluster = params[_BIAS + j], params[_POOLED_BIAS + j]
        for i in range(_G):
            total += g[i] * params[_CONTEXT + i * _H + j]
            cluster += g[i] * params[_POOLED_CONTEXT + i * _H + j]
        base[j], layer[j], mean[j], d_base[j] = total, cluster, _ZERO, _ZERO
    for start in range(0, nodes, BLOCK):
        count = min(BLOCK, nodes - start)
        at = start // BLOCK
        fill_nodes(state, memory, start, count, x[at])
        fill_layers(params, base, x[at], (first[at], second[at]))
        for j in range(_H):
            total = mean[j]
            for k in range(count):
                total += second[at, j, k]
            mean[j] = total
    share = _ONE / np.float32(nodes)
    for i in range(_H):
        mean[i] *= share
        for j in range(_H):
            layer[j] += mean[i] * params[_POOLED + i * _H + j]
    for j in range(_H):
        layer[j] = np.float32(math.tanh(layer[j]))


@compiled_arithmetic
def _backward_heads(params: F32, small: F32, d_logits: F32, d_value: np.float32, slopes: F32) -> None:
    """Slopes of the heads; small[1] becomes the slope by the second layer's mean, of each node's share."""
    nodes = (d_logits.shape[0] - 2) // 2
    g, d_mean, mean, layer = small[0], small[1], small[2], small[3]
    delay, reject = d_logits[2 * nodes], d_logits[2 * nodes + 1]
    slopes[_OFFSETS] += delay
    slopes[_OFFSETS + 1] += reject
    slopes[_OFFSETS + 2] += d_value
    for j in range(_H):
        slopes[_DELAY + j] += delay * layer[j]
        slopes[_REJECT + j] += reject * layer[j]
        slopes[_VALUE + j] += d_value * layer[j]
        by_layer = delay * params[_DELAY + j] + reject * params[_REJECT + j] + d_value * params[_VALUE + j]
        layer[j] = by_layer * (_ONE - layer[j] * layer[j])
        slopes[_POOLED_BIAS + j] += layer[j]
    for i in range(_G):
        for j in range(_H):
            slopes[_POOLED_CONTEXT + i * _H + j] += g[i] * layer[j]
    share = _ONE / np.float32(nodes)
    for i in range(_H):
        total = _ZERO
        for j in range(_H):
            slopes[_POOLED + i * _H + j] += mean[i] * layer[j]
            total += params[_POOLED + i * _H + j] * layer[j]
        d_mean[i] = total * share


@compiled_arithmetic
def _backward_block(
    params: F32, layers: tuple[F32, F32, F32], by: tuple[F32, F32], d_first: F32, slopes: F32
) -> None:
    """One block of nodes. layers: x [F + K, 16], first, second [H, 16]; by: slopes of the bids, `small`."""
    x, first, second = layers
    bids, small = by
    d_mean, d_base, count = small[1], small[4], int(small[5, 0])
    for i in range(_H):
        for k in range(BLOCK):
            d_first[i, k] = _ZERO
    for j in range(_H):
        place, preempt = params[_PLACE + j], params[_PREEMPT + j]
        s_place = s_preempt = s_bias = _ZERO
        for k in range(BLOCK):
            h = second[j, k]
            s_place += bids[0, k] * h
            s_preempt += bids[1, k] * h
            within = d_mean[j] if k < count else _ZERO
            slope = bids[0, k] * place + bids[1, k] * preempt + within
            slope = slope if h > _ZERO else _ZERO
            second[j, k] = slope
            s_bias += slope
        slopes[_PLACE + j] += s_place
        slopes[_PREEMPT + j] += s_preempt
        slopes[_SECOND_BIAS + j] += s_bias
    for i in range(_H):
        for j in range(_H):
            weight = params[_SECOND + i * _H + j]
            total = _ZERO
            for k in range(BLOCK):
                total += first[i, k] * second[j, k]
                d_first[i, k] += weight * second[j, k]
            slopes[_SECOND + i * _H + j] += total
        total = _ZERO
        for k in range(BLOCK):
            d_first[i, k] = d_first[i, k] if first[i, k] > _ZERO else _ZERO
            total += d_first[i, k]
        d_base[i] += total
    for i in range(_F + _K):
        for j in range(_H):
            total = _ZERO
            for k in range(BLOCK):
                total += x[i, k] * d_first[j, k]
            slopes[_NODE + i * _H + j] += total


class MLPGradient:
    """Document 000's plain network."""

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
        """See `Gradient`."""
        return self._layers("actor", states)[-1], self._layers("critic", states)[-1][:, 0].astype(np.float64)

    def _layers(self, side: str, states: F64) -> tuple[F32, F32, F32, F32]:
        """Inputs, hidden layers and outputs of one side."""
        view = self._views
        x = np.clip(states, -MOST_INPUT, MOST_INPUT).astype(np.float32)
        first = np.tanh(x @ view[f"{side}.0.weight"].T + view[f"{side}.0.bias"])
        second = np.tanh(first @ view[f"{side}.2.weight"].T + view[f"{side}.2.bias"])
        return x, first, second, second @ view[f"{side}.4.weight"].T + view[f"{side}.4.bias"]

    def backward(self, states: F64, d_logits: F32, d_values: F64, slopes: F64) -> float:
        """See `Gradient`."""
        for side, slope in (("actor", d_logits), ("critic", d_values[:, None].astype(np.float32))):
            x, first, second, _ = self._layers(side, states)
            for layer, inputs in ((4, second), (2, first), (0, x)):
                slopes[self._at[f"{side}.{layer}.weight"]] = (slope.T @ inputs).ravel()
                slopes[self._at[f"{side}.{layer}.bias"]] = slope.sum(axis=0)
                if layer:
                    slope = (slope @ self._views[f"{side}.{layer}.weight"]) * (1.0 - inputs * inputs)
        return float(np.linalg.norm(slopes))

    def scale_value(self, factor: float, shift: float) -> None:
        """See `Gradient`."""
        self._views["critic.4.weight"][:] *= np.float32(factor)
        bias = self._views["critic.4.bias"]
        bias[:] = bias * np.float32(factor) + np.float32(shift)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """See `Gradient`."""
        return {name: view.copy() for name, view in self._views.items()}
