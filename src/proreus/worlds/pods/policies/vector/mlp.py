"""The k8s simulator's plain network over its vector: two hidden layers for the actor, two for the critic.

It knows one length of the vector and one number of actions. `policies.networks.FixedActorCritic` is the same
network in torch, and the tensors here are named and shaped as its state dict is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.worlds.pods.policies.vector.scorer import fill_chances, log_chance, pick

WIDTH = 256
"""Units of a hidden layer, as in the simulator's service."""
TENSORS = tuple(
    f"{side}.{layer}.{what}"
    for side in ("actor", "critic")
    for layer in (0, 2, 4)
    for what in ("weight", "bias")
)
Layers = tuple[F32, F32, F32, F32, F32, F32]
"""Per layer the weights [in, out] and the bias [out]."""

_ZERO = np.float32(0.0)
MOST_INPUT = 1e6  # inputs beyond this are clipped, so that everything stays finite


def layers_of(tensors: Mapping[str, NDArray[Any]], side: str) -> Layers:
    """The layers of "actor" or "critic", turned as the kernels read them."""
    arrays: list[F32] = []
    for layer in (0, 2, 4):
        weight = np.asarray(tensors[f"{side}.{layer}.weight"], dtype=np.float32)
        arrays.append(np.ascontiguousarray(weight.T))
        arrays.append(np.ascontiguousarray(tensors[f"{side}.{layer}.bias"], dtype=np.float32))
    return (
        arrays[0],
        arrays[1],
        arrays[2],
        arrays[3],
        arrays[4],
        arrays[5],
    )


def initial_tensors(inputs: int, actions: int, seed: int) -> dict[str, F32]:
    """Random orthogonal layers; the last one of the actor near zero, so that all choices are open."""
    random = np.random.default_rng(seed)
    tensors: dict[str, F32] = {}
    for side, outputs, last in (("actor", actions, 0.01), ("critic", 1, 1.0)):
        widths = ((inputs, WIDTH, math.sqrt(2.0)), (WIDTH, WIDTH, math.sqrt(2.0)), (WIDTH, outputs, last))
        for layer, (before, after, gain) in zip((0, 2, 4), widths, strict=True):
            tensors[f"{side}.{layer}.weight"] = _orthogonal(random, after, before, gain)
            tensors[f"{side}.{layer}.bias"] = np.zeros(after, dtype=np.float32)
    return tensors


def _orthogonal(random: np.random.Generator, rows: int, columns: int, gain: float) -> F32:
    tall = random.normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))
    return (gain * (q if rows >= columns else q.T)).astype(np.float32)


@compiled
def _dense(inputs: F32, weights: F32, bias: F32, out: F32) -> None:
    """out[J] = inputs[I] weights[I, J] + bias[J]."""
    for j in range(bias.shape[0]):
        out[j] = bias[j]
    for i in range(weights.shape[0]):
        x = inputs[i]
        for j in range(bias.shape[0]):
            out[j] += x * weights[i, j]


@compiled
def run_layers(layers: Layers, state: F64, out: F32) -> None:
    """out: float32[outputs] of one side for one vector."""
    w0, b0, w2, b2, w4, b4 = layers
    x = np.empty(state.shape[0], dtype=np.float32)
    for i in range(state.shape[0]):
        x[i] = min(max(state[i], -MOST_INPUT), MOST_INPUT)
    first = np.empty(b0.shape[0], dtype=np.float32)
    second = np.empty(b2.shape[0], dtype=np.float32)
    _dense(x, w0, b0, first)
    for j in range(first.shape[0]):
        first[j] = math.tanh(first[j])
    _dense(first, w2, b2, second)
    for j in range(second.shape[0]):
        second[j] = math.tanh(second[j])
    _dense(second, w4, b4, out)


@compiled
def decide_rows(
    actor: Layers, states: F64, actions: int, masks: Bool, draws: F64, out: tuple[I64, F64]
) -> None:
    """One decision per row of states, float64[B, S]; out: (int64[B] actions, float64[B] log-probabilities).

    masks: bool[B, A], or [0, A] for none.
    """
    chosen, logs = out
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    bits = np.empty(actions, dtype=np.int32)
    for b in range(states.shape[0]):
        run_layers(actor, states[b], logits)
        most, total = fill_chances(logits, masks, b, chances, bits)
        k = pick(chances, actions, total, draws[b])
        chosen[b] = k
        logs[b] = log_chance(logits[k], most, total)


@compiled
def chances_of(actor: Layers, state: F64, actions: int, mask: Bool) -> F64:
    """float64[A]: the probability of every action; mask: bool[1, A], or [0, A] for none."""
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    run_layers(actor, state, logits)
    _, total = fill_chances(logits, mask, 0, chances, np.empty(actions, dtype=np.int32))
    return chances.astype(np.float64) / total
